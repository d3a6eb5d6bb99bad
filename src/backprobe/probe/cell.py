"""The cell form: a notebook cell is rewritten at module level, and none of its values is altered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import CodeType
from typing import Any

from backprobe.backends.discover import BACKENDS, find_backend, load_backend
from backprobe.backends.facts import Options
from backprobe.backends.refusals import refuse
from backprobe.backends.tensors import Tensors
from backprobe.errors import BadOutput, NoBackend, NothingToDifferentiate
from backprobe.probe.output import Output, choose
from backprobe.probe.request import Request
from backprobe.probe.run import Run
from backprobe.probe.several_outputs import Asked
from backprobe.record.containers import leaves
from backprobe.recording import Recording
from backprobe.source import frame_builtins
from backprobe.source.cell import ABSENT, Cell, refusing_depth
from backprobe.source.listener import NO_CALL, ModuleListener
from backprobe.source.sites import Site
from backprobe.tracing.log import ScopeKind
from backprobe.tracing.scope import Recorder, Scope


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
    options = Options(values=values, partials=partials, retain_graph=True)  # for the cells that come after
    ready = Request(cell, select, of=of, cotangent=cotangent, options=options, backend=backend)
    mentioned = [name for name in cell.names.imported if name in BACKENDS]
    try:
        found = find_backend(backend, map(cell.value, cell.names.read))
    except NoBackend as error:
        if backend is not None:
            raise
        if len(mentioned) != 1:
            raise NoBackend(
                "cannot infer the framework from the cell", asked="%%probe", found=error.found,
                next=f"import {next(iter(BACKENDS))} in the cell or before it, or --backend {next(iter(BACKENDS))}",
            ) from None  # fmt: skip
        found = load_backend(mentioned[0])
    if found.blocks is None:
        refuse(found, "cells", "%%probe")
    found.refuse(cell, "%%probe")
    return CellRun(ready, found).record((), {})


class CellScope(Scope, ModuleListener):
    """The scope of a notebook cell, which runs at module level: its names are those of the notebook.

    The cell keeps its temporaries here too, as attributes whose names begin with ``@``.
    """

    def __init__(self, cell: Cell, unread: dict[str, Any], recorder: Recorder, kind: ScopeKind) -> None:
        super().__init__(recorder, kind)
        self.cell, self.unread = cell, unread
        self.result: Any = None
        self.bound: dict[str, Site] = {}  # where this run bound each variable last, in the order of these bindings

    def bind(self, at: int, value: Any) -> Any:
        self._bind_here(at)
        return super().bind(at, value)

    def name(self, at: int, value: Any, own: str = "") -> Any:
        if not own:
            self._bind_here(at)
        return super().name(at, value, own)

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

    def call(self, function: Any, flagged: bool = False, at: int = NO_CALL, /) -> Any:
        """``locals`` and its kin have no name of ours to hide here, and write into the namespace itself."""
        looks = any(function is known for known in frame_builtins.LOOKS_AT_FRAME)
        return function if looks else super().call(function, flagged)

    def reads(self, *names: str) -> None:
        """The cell is about to read these names: those that still hold what they held before it are its inputs."""
        for name in names:
            if name in self.unread and self.unread[name] is self.cell.value(name):
                self.read(name, self.unread.pop(name))

    def last(self, at: int, value: Any) -> None:
        """The last expression, which is what the cell returns: it has a name if it holds a tensor."""
        self.result = (super().bind if _holds_tensor(value, self.recorder.tape) else self.done)(at, value)

    def exit(self, *error: object) -> None:
        """Keep no value; what the cell made and left for later, such as a generator, may still report here."""
        for name in [name for name in vars(self) if name.startswith("@")]:
            delattr(self, name)
        self.result = None
        self.unread.clear()
        super().exit()


class CellRun(Run):
    """One run of a notebook cell."""

    has_run = False
    output_name: str | None = None

    @property
    def cell(self) -> Cell:
        return self.probe.target  # type: ignore[no-any-return]  # it is a Cell here

    def inner_names(self) -> tuple[str, ...]:
        """None: the output is a variable that the cell leaves behind."""
        return ()

    def forward(self, inputs: Mapping[str, Any]) -> Any:
        with refusing_depth(self.cell.file):
            scope = self.trace.use_root(partial(CellScope, self.cell, self._tensors_read()))
            certain = self.cell.read_first
            run, sites = self.cell.reporting(scope.unread.keys() - set(certain), operations=self.trace.operations)
        self.bound = scope.bound
        self.trace.open_root(self.cell.file, sites)
        try:
            scope.reads(*certain)
            run(scope)
            self.has_run = True
            return scope.result
        finally:
            scope.exit()

    def _tensors_read(self) -> dict[str, Any]:
        """What holds tensors among the names that the cell reads, in a frame of its own: a traceback keeps frames."""
        held = {name: self.cell.value(name) for name in self.cell.names.read}
        return {name: value for name, value in held.items() if _holds_tensor(value, self.tape)}

    def returned(self, result: Any) -> Any:
        """The last expression has had its name already."""
        return result

    def explain_error(self, error: BaseException) -> str | None:
        line = self.cell.calls("backward") or self.cell.calls("grad")
        if not self.has_run or line is None or "second time" not in str(error):
            return None
        return (
            f"backprobe: line {line} of the cell runs backward itself, which frees the graph; leave that out, the "
            "probe runs it, or give it retain_graph=True"
        )

    def output(self, result: Any, asked: Asked) -> Output:
        self.output_name, tensor = self._chosen(result)
        if not self.tape.is_differentiated(tensor):
            raise NothingToDifferentiate(
                "the output does not depend on any differentiated value", asked=self.spelled(),
                found=f"{self.output_name or 'the last expression'} without history",
                why="no tensor that it was computed from requires a gradient, or the graph was cut on the way "
                "(detach, no_grad)",
                next="x = torch.tensor(3.0, requires_grad=True) for an input, or %%probe with another name",
            )  # fmt: skip
        code, cotangent = self.probe.cotangent, None
        if code is not None:
            self.doing = "evaluating the cotangent of"
            cotangent = eval(code, self.cell.globals, self.cell.locals)
            self.doing = "choosing the output of"
        try:
            return choose(tensor, None, cotangent, self.tape)
        except BadOutput as error:
            shape = ", ".join(map(str, self.tape.describe(tensor).shape or ("()",)))
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
            if self.tape.is_differentiated(self.cell.value(name)):
                return name, self.cell.value(name)
        raise NothingToDifferentiate(
            "the cell computes nothing that can be differentiated", asked=self.spelled(),
            found=f"floating tensors: {', '.join(floating)}" if floating else "no floating tensor",
            why="none that the cell assigns requires a gradient, and its last line is not a floating-point tensor",
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
            f"the cell does not assign {name!r}" if value is ABSENT else f"{name!r} is not a floating-point tensor",
            asked=self.spelled(),
            found="a name that is deleted, or was not assigned in this run" if value is ABSENT
            else f"a tensor of {dtype}" if dtype else type(value).__name__,
            why="" if value is ABSENT else "a gradient is the derivative of a floating output",
            next=f"%%probe {others[-1]}" if others else "a cell that assigns a floating tensor",
        )  # fmt: skip

    def _is_floating(self, value: Any) -> bool:
        return self.tape.is_tensor(value) and self.tape.is_floating(value)

    def hold(self, output: Output) -> int:
        """The output has the name that was asked for, also where that is not selected."""
        name = self.output_name
        if name is None:
            return super().hold(output)
        return self.trace.hold_output(output.tensor, output.path, name, self.bound[name])

    def spelled(self, pattern: str | None = None) -> str:
        words = ["%%probe", self.probe.of, None if pattern is None else f"--select {pattern!r}"]
        return " ".join(word for word in words if isinstance(word, str))

    def known_names(self) -> Sequence[str]:
        return list(self.cell.names.stored)


def _holds_tensor(value: Any, tape: Tensors) -> bool:
    return any(tape.is_tensor(leaf) for _, leaf in leaves(value))
