"""The verb ``probe``: run a function, a model or a notebook cell once, and record its named values with gradients."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType, TracebackType
from typing import Any

from backprobe.backends.discover import BACKENDS, find_backend, find_program, is_model, load_backend
from backprobe.backends.facts import Options
from backprobe.backends.refusals import refuse
from backprobe.errors import BadOption, NoBackend
from backprobe.probe.block import BlockRun, ModelBlock, PlainBlock, users_frame
from backprobe.probe.cell import CellRun
from backprobe.probe.function import FunctionRun
from backprobe.probe.graph import GraphRun
from backprobe.probe.model import ModelRun
from backprobe.probe.run import Request, name_of
from backprobe.record.containers import leaves
from backprobe.recording import BlockRecording, Recording
from backprobe.source.bytecode import names_loaded
from backprobe.source.cell import Cell
from backprobe.source.frames import name_in
from backprobe.storage.recordings import read

STRATEGIES = ("edges", "retain_grad", "hooks", "separate")
VALUES = ("alias", "copy")
PARTIALS = (False, True, "full")


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
    nonfinite: bool = False,
    backend: str | None = None,
    session: Any = None,
) -> Probe:
    """Make a function or model that, called with its arguments, returns a ``Recording``; or a block of code.

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

    A *graph* of TensorFlow is recorded by the names that it has. The target is a tensor of it, or several in a dict or
    list, and ``session`` what runs it (the default session where it is left out): the probe takes a ``feed_dict``. Or
    it is a ``ConcreteFunction``, such as the signature of a SavedModel, and the probe takes its arguments.

    A *block*, ``with bp.probe(model, select) as rec:`` or ``with bp.probe() as rec:``, records your own code as it
    stands, around a model or by its variables. In PyTorch you call ``backward()`` in it, once or several times; in
    TensorFlow ``of`` names the variable of the block that is differentiated when the block is over.

    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> with bp.probe() as rec:
    ...     u = x * 2
    ...     u.square().backward()
    >>> rec["u"].grad
    tensor(12.)

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

    ``nonfinite=True`` also judges each value and each gradient: does it hold NaN or Inf? ``bp.explain(rec)`` says where
    they were born. Where nothing is selected, a function then records its unnamed operations too, and a model
    what its own forward takes and binds; ``["**", "**:*"]`` adds the lines of all its modules.

    >>> bp.explain(bp.probe(lambda x: torch.log(x) * 2, nonfinite=True)(0.0)).findings[0].headline
    "Inf is born at 'log()': log(0)"

    Raises BadOption, NoBackend, NoSource, NothingToDifferentiate, BadOutput, NothingMatched, StrategyRefused and
    Unsupported; what the program itself raises comes out as it is, with a note added.
    """
    for name, value, allowed in (("strategy", strategy, STRATEGIES), ("values", values, VALUES)):
        if value not in allowed:
            raise BadOption(
                f"{name} is one of {', '.join(allowed)}", asked=f"{name}={value!r}", next=f"{name}={allowed[0]!r}"
            )
    _check_partials(partials, strategy)
    _check_nonfinite(nonfinite, strategy)
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
    options = Options(strategy, values, create_graph, partials, nonfinite)
    return Probe(target, select, of, names, cotangent, options, backend, session)


def _check_partials(partials: Any, strategy: str) -> None:
    if partials not in PARTIALS:
        raise BadOption('partials is True, False or "full"', asked=f"partials={partials!r}", next="partials=True")
    if partials and strategy != "edges":
        raise BadOption(
            "partials are taken at gradient edges", asked=f"partials={partials!r}, strategy={strategy!r}",
            why="the hooks of the other strategies would take part in every local pass", next='strategy="edges"',
        )  # fmt: skip


def _check_nonfinite(nonfinite: Any, strategy: str) -> None:
    if not isinstance(nonfinite, bool):
        raise BadOption("nonfinite is True or False", asked=f"nonfinite={nonfinite!r}", next="nonfinite=True")
    if nonfinite and strategy != "edges":
        raise BadOption(
            "NaN and Inf are looked for in one pass over the gradient edges",
            asked=f"nonfinite=True, strategy={strategy!r}", next='strategy="edges"',
        )  # fmt: skip


@dataclass(frozen=True)
class Probe(Request):
    """A function or model ready to be recorded: call it with its arguments, or open a block with it."""

    open_blocks: dict[int, list[BlockRun]] = field(default_factory=dict, repr=False, compare=False)  # by thread

    def __call__(self, *args: Any, **kwargs: Any) -> Recording:
        """Run the target once with these arguments and backward once. Returns the ``Recording``."""
        program = find_program(self.backend, self.target, self.session)
        if program is not None:
            return GraphRun(self, program).record(args, kwargs)
        if self.session is not None:
            raise BadOption(
                "session runs the tensors of a TensorFlow graph",
                asked=f"bp.probe({name_of(self.target)}, session=...)",
                found=f"a target of type {type(self.target).__name__}", next=f"bp.probe({name_of(self.target)})",
            )  # fmt: skip
        if not callable(self.target):
            raise BadOption(
                f"{type(self.target).__name__} is neither a function nor a model", asked=f"bp.probe({self.target!r})",
                found="an object that cannot be called", next="bp.probe(f)(x), with f a function",
            )  # fmt: skip
        values = [leaf for value in (*args, *kwargs.values()) for _, leaf in leaves(value)]
        backend = find_backend(self.backend, [self.target, *values])
        for part in (self.target, *values):
            backend.refuse(part, f"bp.probe({name_of(self.target)})")
        run = ModelRun if is_model(backend, self.target) else FunctionRun
        return run(self, backend).record(args, kwargs)

    def __enter__(self) -> BlockRecording:
        """Record the block that begins here: what the program computes in it, and what its ``backward()`` brings."""
        run = self._block(users_frame(sys._getframe(1)))
        recording = run.enter()
        self.open_blocks.setdefault(threading.get_ident(), []).append(run)
        return recording

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The block is over, and what has become of its values is in the recording."""
        opened = self.open_blocks.get(threading.get_ident())
        frame = users_frame(sys._getframe(1))
        if not opened:
            raise BadOption(
                "this probe has no open block", asked="probe.__exit__(...)", found="a block that was never entered, "
                "or entered in another thread", next="with bp.probe() as rec:",
            )  # fmt: skip
        run = ([run for run in opened if run.frame is frame] or opened)[-1]  # generators and tasks take turns
        opened.remove(run)
        run.exit(error)

    def _block(self, frame: FrameType) -> BlockRun:
        if self.target is None:
            held = [leaf for name in names_loaded(frame.f_code) for _, leaf in leaves(name_in(frame, name))]
            found = find_backend(self.backend, [*held, frame], mixed=False, spelled="with bp.probe({}) as rec:")
            return PlainBlock(self, found, frame)
        backend = find_backend(self.backend, [self.target])
        asked = f"with bp.probe({name_of(self.target)})"
        (backend.blocks or refuse(backend, "blocks", asked)).refuse(self.target, asked)
        if not is_model(backend, self.target):
            raise BadOption(
                "a block is about a model, or about its own variables", asked=f"with bp.probe({name_of(self.target)})",
                found=f"a target of type {type(self.target).__name__}",
                next="with bp.probe() as rec: around what calls it, or rec = bp.probe(f)(x)",
            )  # fmt: skip
        return ModelBlock(self, backend, frame)


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
    ready = replace(ready, options=replace(ready.options, retain_graph=True))  # for the cells that come after
    mentioned = [name for name in cell.frameworks if name in BACKENDS]
    try:
        found = find_backend(backend, map(cell.value, cell.read))
    except NoBackend as error:
        if backend is not None:
            raise
        if len(mentioned) != 1:
            raise NoBackend(
                "the cell does not tell which framework computes", asked="%%probe", found=error.found,
                next=f"import {next(iter(BACKENDS))} in the cell or before it, or --backend {next(iter(BACKENDS))}",
            ) from None  # fmt: skip
        found = load_backend(mentioned[0])
    if found.blocks is None:
        refuse(found, "cells", "%%probe")
    found.refuse(cell, "%%probe")
    return CellRun(ready, found).record((), {})


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
