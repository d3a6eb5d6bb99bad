"""The verb ``probe``: run a function, a model or a notebook cell once, and record its named values with gradients."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType, TracebackType
from typing import Any, TypeVar

from backprobe.backends.base import BACKENDS, Backend, ModuleObserver, Options, Tape, find_backend
from backprobe.errors import (
    BackprobeError,
    BadOption,
    BadOutput,
    NoBackend,
    NoSource,
    NothingMatched,
    NothingToDifferentiate,
    Unsupported,
)
from backprobe.names import Pattern, nearest, quote, selection, strip
from backprobe.output import Output, choose
from backprobe.record import GradStatus
from backprobe.recording import Recording
from backprobe.source.cell import Cell, refusing_depth
from backprobe.source.follow import innermost, package, reporting
from backprobe.source.rewrite import Site
from backprobe.store import read
from backprobe.structure import leaves
from backprobe.trace import LOOKS_AT_FRAME, NO_SITE, Scope, Trace, Value
from backprobe.transcript import transcribe

T = TypeVar("T")
STRATEGIES = ("edges", "retain_grad", "hooks", "separate")
VALUES = ("alias", "copy")
PARTIALS = (False, True, "full")
ABSENT = object()


def probe(
    target: Any = None,
    select: str | Sequence[str] | None = None,
    *,
    of: str | int | Callable[[Any], Any] | None = None,
    wrt: str | Sequence[str] | None = None,
    cotangent: Any = None,
    strategy: str = "edges",
    values: str = "alias",
    partials: bool | str = False,
    create_graph: bool = False,
    backend: str | None = None,
) -> Probe:
    """Make a function or model that, called with its arguments, returns a ``Recording`` instead of its result.

    >>> import torch, backprobe as bp
    >>> def f(x, w, b):
    ...     u = x * w
    ...     v = u + b
    ...     return torch.relu(v)
    >>> rec = bp.probe(f)(3.0, 2.0, 1.0)
    >>> rec["u"].value, rec["u"].grad
    (tensor(6.), tensor(1.))

    A *function* is recorded whole: its arguments, every value that it or a function of yours that it calls binds to a
    name, and the gradient of its output towards each. ``select``, a pattern or a list of them, records only those. If
    no floating argument requires a gradient, all of them are differentiated; ``wrt`` names those that are, instead.

    A *model* is recorded by what its modules return and by its parameters, or by ``select``: module paths and, after
    a colon, locals of their ``forward``. Nothing of it is altered.

    ``of`` is the path of what to differentiate in the return value, or a function of it. ``cotangent`` is the vector
    of the vector-Jacobian product, shaped like the output, for one that is not a scalar. ``values="copy"`` copies
    every value at once. ``create_graph`` lets gradients be differentiated again. ``strategy`` is one of ``edges``,
    ``retain_grad``, ``hooks`` and ``separate``. ``backend`` is needed only where the arguments do not tell.

    ``partials=True`` also takes the derivative of each value towards each of its direct inputs alone: the edges of the
    circuit that ``bp.draw`` shows, and the factors of ``bp.derive``. Each value costs one short pass of its own, and
    what the function returned keeps its graph. ``partials="full"`` adds the whole Jacobian block of each edge between
    values of several elements.

    >>> rec = bp.probe(f, partials=True)(3.0, 2.0, 1.0)
    >>> rec["u"].partials
    {'x': tensor(2.), 'w': tensor(3.)}

    Raises BadOption, NoBackend, NoSource, NothingToDifferentiate, BadOutput, NothingMatched, StrategyRefused and
    Unsupported; what the program itself raises comes out as it is, with a note added.
    """
    for name, value, allowed in (("strategy", strategy, STRATEGIES), ("values", values, VALUES)):
        if value not in allowed:
            raise BadOption(
                f"{name} is one of {', '.join(allowed)}", asked=f"{name}={value!r}", next=f"{name}={allowed[0]!r}"
            )
    _check_partials(partials, strategy)
    for name, texts in (("select", select), ("wrt", wrt)):
        if not (texts is None or isinstance(texts, str | Sequence | set | frozenset)):
            raise BadOption(
                f"{name} is a text or a list of texts, not {type(texts).__name__}", asked=f"{name}={texts!r}",
                next=f"{name}='x'",
            )  # fmt: skip
    if not (of is None or isinstance(of, str | int) or callable(of)):
        raise BadOption(
            f"of is a path, a position or a function, not {type(of).__name__}", asked=f"of={of!r}", next="of='loss'"
        )
    names = None if wrt is None else frozenset([wrt] if isinstance(wrt, str) else wrt)
    return Probe(target, select, of, names, cotangent, Options(strategy, values, create_graph, partials), backend)


def _check_partials(partials: Any, strategy: str) -> None:
    if partials not in PARTIALS:
        raise BadOption('partials is True, False or "full"', asked=f"partials={partials!r}", next="partials=True")
    if partials and strategy != "edges":
        raise BadOption(
            "partials are taken at gradient edges", asked=f"partials={partials!r}, strategy={strategy!r}",
            why="the hooks of the other strategies would take part in every local pass", next='strategy="edges"',
        )  # fmt: skip


@dataclass(frozen=True)
class Probe:
    """A function or model ready to be recorded: call it with its arguments."""

    target: Any
    select: str | Sequence[str] | None
    of: str | int | Callable[[Any], Any] | None
    wrt: frozenset[str] | None
    cotangent: Any
    options: Options
    backend: str | None

    def __call__(self, *args: Any, **kwargs: Any) -> Recording:
        """Run the target once with these arguments and backward once. Returns the ``Recording``."""
        if not callable(self.target):
            raise BadOption(
                f"{type(self.target).__name__} is neither a function nor a model", asked=f"bp.probe({self.target!r})",
                found="an object that cannot be called", next="bp.probe(f)(x), with f a function",
            )  # fmt: skip
        values = [leaf for value in (*args, *kwargs.values()) for _, leaf in leaves(value)]
        backend = find_backend(self.backend, [self.target, *values])
        for part in (self.target, *values):
            backend.refuse(part, f"bp.probe({_name(self.target)})")
        run = _ModelRun if backend.is_model(self.target) else _FunctionRun
        return run(self, backend).record(args, kwargs)

    def __enter__(self) -> Any:
        raise Unsupported(
            "the block form, with bp.probe(...) as rec:, is not there yet",
            asked="with bp.probe(...)",
            why="this release records functions and models",
            next="put the block into a function f and write rec = bp.probe(f)(x)",
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """There is no block to leave."""


class _Run:
    """One call of a probe. The forms differ in how the program is made to report."""

    in_function = True
    lifted_numbers: Sequence[str] = ()

    def __init__(self, probe: Probe, backend: Backend) -> None:
        self.probe, self.backend = probe, backend
        chosen = probe.select if probe.select is None or isinstance(probe.select, str) else tuple(probe.select)
        self.selection = selection(chosen, self.in_function)
        self.tape: Tape = backend.open(probe.options)
        self.undo: list[Callable[[], None]] = []  # what gives the caller's containers back as they were
        inner = innermost(probe.target if self.in_function else probe.target.forward)
        home = package(inner.__code__.co_filename) if inner is not None else None
        self.trace = Trace(self.tape, self.selection, home)

    def record(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Recording:
        """Run forward and backward; whatever happens, nothing is left behind."""
        try:
            result = self._noting(functools.partial(self.forward, args, kwargs), "running")
            self.returned(result)
            output = self.output(result)
            return self._noting(functools.partial(self._differentiated, result, output), "differentiating")
        finally:
            for put_back in reversed(self.undo):
                put_back()
            self.trace.release()
            self.tape.release()

    def returned(self, result: Any) -> None:
        """What the target returned has a name."""
        self.trace.name(self.trace.root, "return", result, NO_SITE)
        if inspect.isgenerator(result) or inspect.iscoroutine(result):
            result.close()
            raise NothingToDifferentiate(
                f"{_name(self.probe.target)} returns a {type(result).__name__}, which has computed nothing yet",
                asked=self.spelled(), next="probe a function that runs it to its end",
            )  # fmt: skip

    def _differentiated(self, result: Any, output: Output) -> Recording:
        output_value = self.hold(output)
        self.trace.close()
        values = self.trace.values
        captured = [value for value in values if value.capture is not None]
        passed = self.tape.differentiate(output.tensor, output.cotangent, [value.capture for value in captured])
        record = transcribe(self.trace, self.backend, captured, passed, output_value)
        missed = self.selection.unmatched([*record.names, *self.trace.seen])
        if missed:
            self.refuse_unmatched(missed[0], record.names)
        return Recording(record, result)

    def _noting(self, step: Callable[[], T], doing: str) -> T:
        """Run a step; an error of the program's gets a note that says where the probe was."""
        try:
            return step()
        except BackprobeError:
            raise
        except BaseException as error:
            note = f"backprobe: raised while {doing} {_name(self.probe.target)} under a probe"
            if self.trace.last is not None and self.trace.last[1].line:
                scope, site = self.trace.last
                where = f"{os.path.basename(scope.file)}:{site.line}"
                note += f"; the last name bound was {site.local or 'none'!r} ({where}: {site.text})"
            error.add_note(note)
            for explained in (self.backend.explain_error(error), self.explain_error(error)):
                if explained:
                    error.add_note(explained)
            raise

    def refuse_unmatched(self, pattern: Pattern, names: Mapping[str, int]) -> None:
        """A pattern that matched nothing is an error with the nearest names of every kind."""
        known = {strip(name) for name in (*names, *self.trace.seen, *self.known_names())}
        close = nearest(pattern.text, {name.removeprefix(":") for name in known})
        raise NothingMatched(
            f"the pattern {pattern.text!r} matches nothing in {_name(self.probe.target)}",
            asked=self.spelled(pattern.text),
            found=f"{len(known)} names" + (f", the nearest: {', '.join(close)}" if close else ""),
            why=" ".join(self.trace.notes),
            next=self.spelled(close[0]) if close else f"{self.spelled()}, for every name",
        )

    def spelled(self, pattern: str | None = None) -> str:
        """How this probe is asked for, with a pattern to select by."""
        return f"bp.probe({_name(self.probe.target)}" + (f", {pattern!r})" if pattern is not None else ")")

    def hold(self, output: Output) -> Value:
        """The value that is differentiated, which always has an entry."""
        return self.trace.hold_output(output.tensor, output.path)

    def forward(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        raise NotImplementedError

    def explain_error(self, error: BaseException) -> str | None:
        """What the form itself did that may be behind an error of the program."""
        return None

    def output(self, result: Any) -> Output:
        return self._noting(
            lambda: choose(result, self.probe.of, self.probe.cotangent, self.tape), "choosing the output of"
        )

    def known_names(self) -> Sequence[str]:
        """Names that the program has whether or not it ran them, for suggestions."""
        return ()


class _FunctionRun(_Run):
    """The function form: the function itself is rewritten, and its arguments are made differentiable."""

    def forward(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        target = self.probe.target
        method = type(target).__call__
        own_call = innermost(target) is None and isinstance(method, FunctionType)
        function = MethodType(method, target) if own_call else target
        reporting_function = reporting(function, self.trace.root_opener, operations=self.trace.operations)
        bound = self._bound(function, args, kwargs)
        lifted = self.backend.lift(bound.arguments, self.probe.wrt, self.undo)
        self.arguments = [leaf for value in lifted.values() for _, leaf in leaves(value)]
        self.lifted_numbers = [name for name, value in bound.arguments.items()
                               if isinstance(value, int | float) and lifted[name] is not value]  # fmt: skip
        bound.arguments.update(lifted)
        return reporting_function(*bound.args, **bound.kwargs)

    def explain_error(self, error: BaseException) -> str | None:
        if not self.lifted_numbers or not isinstance(error, TypeError):
            return None
        names = ", ".join(self.lifted_numbers)
        return (
            f"backprobe: the numbers given for {names} were made tensors, to be differentiated; "
            "wrt='x' differentiates x alone and leaves the others as they are"
        )

    def _bound(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        signature = inspect.signature(function)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise BadOption(
                f"{_name(function)} cannot be called with these arguments: {error}",
                asked=f"{len(args)} positional arguments" + "".join(f", {name}=" for name in kwargs),
                found=f"{_name(function)}{signature}", next="the arguments that the function itself takes",
            ) from error  # fmt: skip
        unknown = (self.probe.wrt or frozenset()) - bound.arguments.keys()
        if unknown:
            asked = sorted(unknown)[0]
            close = nearest(asked, bound.arguments) or list(bound.arguments)
            raise BadOption(
                f"{asked!r} is no argument of {_name(function)}", asked=f"wrt={sorted(self.probe.wrt or ())}",
                found=f"arguments: {', '.join(bound.arguments)}", next=f"wrt={close[0]!r}",
            )  # fmt: skip
        return bound

    def output(self, result: Any) -> Output:
        """The output. Without one, that no argument is floating is the likely cause: parameters may still be."""
        try:
            return super().output(result)
        except (BadOutput, NothingToDifferentiate):
            if not any(self.tape.is_tensor(leaf) and self.tape.is_floating(leaf) for leaf in self.arguments):
                self._refuse_no_floating(self.arguments)
            raise

    def _refuse_no_floating(self, every: Sequence[Any]) -> None:
        tensors = {str(self.tape.describe(value).dtype) for value in every if self.tape.is_tensor(value)}
        kinds = sorted(tensors | {type(value).__name__ for value in every if not self.tape.is_tensor(value)})
        raise NothingToDifferentiate(
            f"{_name(self.probe.target)} has no floating argument to differentiate",
            asked=f"bp.probe({_name(self.probe.target)})",
            found=f"arguments of type {', '.join(kinds)}" if kinds else "no arguments",
            why="only floating point and complex values have derivatives",
            next="pass floating point values, x.float() or 3.0",
        )


class _ModelRun(_Run):
    """The model form: modules report what they return, and selected forwards are exchanged for reporting ones."""

    in_function = False

    def forward(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        if self.probe.wrt is not None:
            raise BadOption(
                "wrt is for functions: in the model form nothing is altered", asked=f"wrt={sorted(self.probe.wrt)}",
                why="the flags requires_grad of parameters and inputs stand",
                next="x.requires_grad_() for an input, or bp.probe(lambda x: model(x), wrt='x')",
            )  # fmt: skip
        model = self.probe.target
        self.paths = self.backend.module_paths(model)
        for path, parameter in self.backend.parameters(model):
            self.trace.name_path(_quoted(path), parameter)
        executed: set[str] = set()

        def returned(path: str, output: Any) -> None:
            executed.add(path)
            self.trace.name_returned(_quoted(path), output)

        observer = ModuleObserver(
            self._wants_output, self._wants_locals, self._rewritten, returned, self._writing, self._written
        )
        with self.backend.observing(model, observer):
            result = model(*args, **kwargs)
        for path in self.paths:
            if path not in executed and self._wants_output(path):
                self.trace.name_absent(_quoted(path), GradStatus.NOT_EXECUTED, "its module did not run")
        return result

    def _wants_output(self, path: str) -> bool:
        return self.selection.wants_return(_quoted(path))

    def _wants_locals(self, path: str) -> bool:
        scope = _quoted(path)
        return self.selection.wants_locals(scope) or self.selection.wants_calls(scope)

    def _rewritten(self, path: str, forward: Any) -> Any:
        try:
            return reporting(forward, self.trace.module_opener(_quoted(path)), operations=self.trace.operations)
        except NoSource as error:
            self.trace.notes[f"the locals of {path or 'the model'} cannot be seen: {error.headline}"] = None
            return None

    def _writing(self, inputs: Any) -> None:
        for tensor in self._tensors(inputs):
            self.trace.writing(tensor)

    def _written(self, inputs: Any) -> None:
        for tensor in self._tensors(inputs):
            self.trace.written(tensor)

    def _tensors(self, inputs: Any) -> list[Any]:
        return [leaf for _, leaf in leaves(inputs) if self.tape.is_tensor(leaf)]

    def known_names(self) -> Sequence[str]:
        parameters = (path for path, _ in self.backend.parameters(self.probe.target))
        return [_quoted(path) for path in (*self.paths, *parameters) if path]


class CellScope(Scope):
    """The scope of a notebook cell, which runs at module level: its names are those of the notebook.

    The cell keeps its temporaries here too, as attributes whose names begin with ``@``.
    """

    def __init__(self, trace: Trace, cell: Cell, unread: dict[str, Any]) -> None:
        super().__init__(trace, None, "", 0)
        self.cell, self.unread = cell, unread
        self.result: Any = None
        self.bound: dict[str, Site] = {}  # where this run bound each variable last, in the order of these bindings

    def bind(self, at: int, value: Any) -> Any:
        self._bind_here(at)
        return super().bind(at, value)

    def name(self, at: int, value: Any) -> Any:
        self._bind_here(at)
        return super().name(at, value)

    def _bind_here(self, at: int) -> None:
        """A site binds a variable unless it is an element, an attribute or an operation without a name."""
        local = self.sites[at].local
        if local.isidentifier():
            self.bound.pop(local, None)
            self.bound[local] = self.sites[at]

    def forget(self, *names: str) -> None:
        for name in names:
            self.bound.pop(name, None)
        super().forget(*names)

    def call(self, function: Any, flagged: bool = False) -> Any:
        """``locals`` and its kin have no name of ours to hide here, and write into the namespace itself."""
        return function if any(function is known for known in LOOKS_AT_FRAME) else super().call(function, flagged)

    def reads(self, *names: str) -> None:
        """The cell is about to read these names: those that still hold what they held before it are its inputs."""
        for name in names:
            if name in self.unread and self.unread[name] is self.cell.value(name):
                self.trace.name(self, name, self.unread.pop(name), NO_SITE)

    def last(self, at: int, value: Any) -> None:
        """The last expression, which is what the cell returns: it has a name if it holds a tensor."""
        self.result = value
        (super().bind if _holds_tensor(value, self.trace.tape) else self.done)(at, value)

    def exit(self) -> None:
        """Keep no value; what the cell made and left for later, such as a generator, may still report here."""
        for name in [name for name in vars(self) if name.startswith("@")]:
            delattr(self, name)
        self.result = None
        self.unread.clear()
        super().exit()


class _CellRun(_Run):
    """The cell form: the code of a notebook cell is rewritten at module level, and nothing of its values is altered."""

    has_run = False
    output_name: str | None = None

    @property
    def cell(self) -> Cell:
        return self.probe.target  # type: ignore[no-any-return]

    def forward(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        with refusing_depth(self.cell.file):
            scope = CellScope(self.trace, self.cell, self._tensors_read())
            certain = self.cell.read_first
            reporting = self.cell.reporting(scope.unread.keys() - set(certain), operations=self.trace.operations)
        self.trace.root, self.bound = scope, scope.bound
        self.trace.root_opener(_name(self.cell), self.cell.file, reporting.sites)()
        try:
            scope.reads(*certain)
            reporting.run(scope)
            self.has_run = True
            return scope.result
        finally:
            scope.exit()

    def _tensors_read(self) -> dict[str, Any]:
        """What holds tensors among the names that the cell reads, in a frame of its own: a traceback keeps frames."""
        held = {name: self.cell.value(name) for name in self.cell.read}
        return {name: value for name, value in held.items() if _holds_tensor(value, self.tape)}

    def returned(self, result: Any) -> None:
        """The last expression has had its name already."""

    def explain_error(self, error: BaseException) -> str | None:
        line = self.cell.calls("backward") or self.cell.calls("grad")
        if not self.has_run or line is None or not isinstance(error, RuntimeError):
            return None
        return (
            f"backprobe: line {line} of the cell runs backward itself, which frees the graph; leave that out, the "
            "probe runs it, or give it retain_graph=True"
        )

    def output(self, result: Any) -> Output:
        self.output_name, tensor = self._chosen(result)
        if not getattr(tensor, "requires_grad", True):
            raise NothingToDifferentiate(
                "the output depends on nothing that is differentiated", asked=self.spelled(),
                found=f"{self.output_name or 'the last expression'} without history",
                why="no tensor that it was computed from requires a gradient, or the graph was cut on the way "
                "(detach, no_grad)",
                next="x = torch.tensor(3.0, requires_grad=True) for an input, or %%probe with another name",
            )  # fmt: skip
        code, cotangent = self.probe.cotangent, None
        if code is not None:
            evaluated = functools.partial(eval, code, self.cell.globals, self.cell.locals)
            cotangent = self._noting(evaluated, "evaluating the cotangent of")
        try:
            return choose(tensor, None, cotangent, self.tape)
        except BadOutput as error:
            shape = ", ".join(map(str, self.tape.describe(tensor).shape or ()))
            error.asked = error.asked if code is not None else self.spelled()
            error.next = f'--cotangent "torch.ones({shape})", or a last line with a real scalar made from the output'
            raise

    def _chosen(self, result: Any) -> tuple[str | None, Any]:
        """What to differentiate, and its name: what was asked for, the last expression, or what was assigned last."""
        if isinstance(self.probe.of, str):
            return self.probe.of, self._asked_for(self.probe.of)
        if self._is_floating(result):
            return None, result
        floating = self._floating_names()
        for name in reversed(floating):
            if getattr(self.cell.value(name), "requires_grad", True):
                return name, self.cell.value(name)
        raise NothingToDifferentiate(
            "the cell computes nothing that can be differentiated", asked=self.spelled(),
            found=f"floating tensors: {', '.join(floating)}" if floating else "no floating tensor",
            why="none that the cell assigns requires a gradient, and its last line is no floating tensor",
            next="x = torch.tensor(3.0, requires_grad=True) for an input",
        )  # fmt: skip

    def _floating_names(self) -> list[str]:
        """The variables that this run has bound to floating tensors: an older value of one is none of the cell's."""
        return [name for name in self.bound if self._is_floating(self.cell.value(name))]

    def _asked_for(self, name: str) -> Any:
        value = self.cell.value(name, ABSENT)
        if self._is_floating(value):
            if name in self.bound:
                return value
            value = ABSENT  # it is of an earlier cell, or of an earlier run of this one
        others = self._floating_names()
        dtype = self.tape.describe(value).dtype if self.tape.is_tensor(value) else ""
        raise BadOutput(
            f"the cell leaves no {name!r} behind" if value is ABSENT else f"{name!r} is no floating tensor",
            asked=self.spelled(),
            found="a name that is deleted, or was not assigned in this run" if value is ABSENT
            else f"a tensor of {dtype}" if dtype else type(value).__name__,
            why="" if value is ABSENT else "a gradient is the derivative of a floating output",
            next=f"%%probe {others[-1]}" if others else "a cell that assigns a floating tensor",
        )  # fmt: skip

    def _is_floating(self, value: Any) -> bool:
        return self.tape.is_tensor(value) and self.tape.is_floating(value)

    def hold(self, output: Output) -> Value:
        """The output has the name that was asked for, also where that is not selected."""
        name = self.output_name
        if name is None:
            return super().hold(output)
        self.trace.return_site = self.bound[name]
        known = self.trace.latest.get(id(output.tensor))
        already = list(known.names) if known is not None else []
        value = super().hold(output)
        if value.names and (value is not known or value.names != already):
            count = self.trace.root.counts.get(name, 0)
            self.trace.root.counts[name] = count + 1
            value.names[-1] = (self.trace.root, name, count, "")
        return value

    def spelled(self, pattern: str | None = None) -> str:
        words = ["%%probe", self.probe.of, None if pattern is None else f"--select {pattern!r}"]
        return " ".join(word for word in words if isinstance(word, str))

    def known_names(self) -> Sequence[str]:
        return self.cell.assigned


def _holds_tensor(value: Any, tape: Tape) -> bool:
    return any(tape.is_tensor(leaf) for _, leaf in leaves(value))


def probe_cell(
    cell: Cell,
    select: Sequence[str] | None = None,
    *,
    of: str | None = None,
    cotangent: CodeType | None = None,
    values: str = "alias",
    partials: bool | str = True,
    backend: str | None = None,
) -> Recording:
    """Run a notebook cell once and backward once: what the magic ``%%probe`` does.

    Entries are the variables that the cell assigns, and the tensors that it reads from the notebook. ``of`` is the
    name of what to differentiate: without it the last expression if that is a floating tensor, or else the last one
    assigned that requires a gradient. ``cotangent`` is the code of an expression, evaluated when the cell has run.
    """
    ready = probe(cell, select, of=of, cotangent=cotangent, values=values, partials=partials, backend=backend)
    if backend is None and not any(known in sys.modules for known in BACKENDS):
        backend = next((name for name in cell.frameworks if name in BACKENDS), None)
    try:
        found = find_backend(backend, map(cell.value, cell.read))
    except NoBackend as error:
        if backend is not None:
            raise
        raise NoBackend(
            "the cell does not tell which framework computes", asked="%%probe", found=error.found,
            next=f"import {next(iter(BACKENDS))} in the cell or before it, or --backend {next(iter(BACKENDS))}",
        ) from None  # fmt: skip
    return _CellRun(ready, found).record((), {})


@functools.lru_cache(65536)
def _quoted(path: str) -> str:
    return ".".join(quote(segment) for segment in path.split(".")) if path else ""


def _name(target: Any) -> str:
    return str(getattr(target, "__name__", None) or type(target).__name__)


def load(path: str | os.PathLike[str], *, to: str | None = None) -> Recording:
    """Read a recording that ``rec.save(path)`` wrote, with its tensors in the framework it was made in.

    ``to="numpy"`` gives NumPy arrays instead, without importing a framework: bfloat16 as float32, sparse as dense.
    Raises BadRecording for a folder that is cut, changed or of another version. Nothing in the folder is ever run.

    >>> import torch, backprobe as bp
    >>> bp.probe(lambda x: x * 3)(torch.tensor(2.0)).save("/tmp/triple", overwrite=True)
    >>> bp.load("/tmp/triple")["x"].grad
    tensor(3.)
    """
    record, result = read(path, to=to)
    return Recording(record) if result is None else Recording(record, result[0])
