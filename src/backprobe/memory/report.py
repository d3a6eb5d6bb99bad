"""The report on a block: bytes kept for backward by line, module and operation, and graphs that outlive their step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from backprobe.backends.memory import Alive, MeasuredMemory, MemoryHearing, Saved
from backprobe.errors import BadOption
from backprobe.memory.filled_at import filled_at, put_into
from backprobe.memory.holders import Holder, Holders
from backprobe.memory.text import about_cycle, about_gradients, about_hooks, heading, size, where
from backprobe.record.options import Option
from backprobe.record.source import Source
from backprobe.show.number_table import Cells, NumberTable
from backprobe.show.text import printable

TITLES = ("line", "module", "operation", "tensors", "kept")
FEW = 12  # the most rows that are printed
BY = Option("by", str, ("line", "module", "operation"), "'module'")


@dataclass(frozen=True)
class Held:
    """An object that keeps something of earlier steps alive, and how to release it.

    ``kind`` is ``graphs``, ``arrays``, ``cycle``, ``hooks`` or ``gradients``. ``path`` is the path to the object from a
    variable, such as ``losses[…]``. It is empty if no variable leads to the object. For hooks it is the name of the
    last one, and for gradients the class of the optimizer. ``graphs`` is the number of earlier steps, or the number of
    hooks, and ``nbytes`` the memory that is kept. ``source`` is the line that stores the object, or else the line that
    made it. ``text`` says all of this in a sentence. ``next`` is the code to write instead, and ``tried`` describes the
    result if a script was run again with this code.
    """

    kind: str
    path: str
    graphs: int
    nbytes: int
    source: Source | None
    text: str
    next: str = ""
    tried: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(repr=False)
class MemoryReport(NumberTable):
    """The memory that a block kept for backward, and the objects that outlived their step. Prints as a table and
    findings.

    ``steps`` is the number of steps. ``saved`` has the memory kept by the step that kept the most, line by line.
    ``peak`` is the largest number of bytes kept for backward at the same time, and ``device_peak`` the largest number
    in use on a GPU, by the GPU's own counter. Parameters are not counted, and tensors that share memory are counted
    once. ``held`` are the objects that outlive their step.
    """

    steps: int = 0
    saved: tuple[Saved, ...] = ()
    peak: int = 0
    device_peak: int | None = None
    held: tuple[Held, ...] = ()
    _step: Callable[[], None] | None = field(default=None, compare=False)

    @property
    def ok(self) -> bool:
        """Is there no object that outlives its step?"""
        return not self.held

    @property
    def nbytes(self) -> int:
        """The number of bytes kept for backward by the step that kept the most."""
        return sum(one.nbytes for one in self.saved)

    def by(self, what: str = "line") -> dict[str, int]:
        """The bytes by ``"line"``, ``"module"`` or ``"operation"``, the largest number first. Raises BadOption."""
        BY.check(what)
        found: dict[str, int] = defaultdict(int)
        for one in self.saved:
            found[where(one.source) if what == "line" else getattr(one, what)] += one.nbytes
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def step(self) -> None:
        """Mark the end of a step, in programs without an optimizer that does so. Raises BadOption after the end of the
        block.
        """
        if self._step is None:
            raise BadOption(
                "the block of this report is over", asked="report.step()", next="with bp.memory() as report:, and in it"
            )
        self._step()

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, as ``backprobe memory --json`` prints it."""
        return {
            "ok": self.ok,
            "steps": self.steps,
            "nbytes": self.nbytes,
            "peak": self.peak,
            "device_peak": self.device_peak,
            **{
                key: [{**vars(one), "source": where(one.source)} for one in every]
                for key, every in (("saved", self.saved), ("held", self.held))
            },
        }

    def plot(self) -> Any:
        """The bytes by line and module as a ``matplotlib`` figure. Raises NotInstalled."""
        from backprobe.memory.plot import picture  # imports NumPy

        return picture(self)

    def to_dataframe(self) -> Any:
        """A data frame of pandas or Polars: file, line, code, module name, operation and bytes. Raises NotInstalled."""
        from backprobe.show.frames import frame

        lines = [one.source for one in self.saved]
        columns = {
            "file": [line and line.file for line in lines],
            "line": [line and line.line for line in lines],
            "code": [line and line.text for line in lines],
            "name": [one.module for one in self.saved],
            "op": [one.operation for one in self.saved],
            "bytes": [one.nbytes for one in self.saved],
        }
        return frame(lambda: columns, "report.to_dataframe()")

    def _fill(self, listener: MemoryHearing, frame: FrameType) -> None:
        # Fill the report when the block has ended.
        measured = listener.measured()
        self.steps, self.saved, self.peak = measured.steps, tuple(measured.saved), measured.peak
        self.device_peak = measured.device_peak
        self.held = (*_of_graphs(measured.alive, frame), *_of_others(measured))

    def _parts(self) -> tuple[str, Cells, Sequence[Cells], Sequence[str]]:
        rows = [
            (
                printable(where(one.source)),
                printable(one.module or "–"),
                printable(one.operation or "–"),
                f"{one.tensors:,}",
                size(one.nbytes),
            )
            for one in self.saved[:FEW]
        ]
        left = len(self.saved) - FEW
        more = [f"… {left:,} lines more"] if left > 0 else []
        said = [
            "\n  ".join([one.text, *[f"next: {one.next}"] * bool(one.next), *[one.tried] * bool(one.tried)])
            for one in self.held
        ]
        return heading(self), TITLES if self.saved else (), rows, [*more, *said]

    def __repr__(self) -> str:
        return f"<backprobe.MemoryReport: {heading(self)}>"


def _of_graphs(alive: Sequence[Alive], frame: FrameType) -> list[Held]:
    # Findings about memory that is kept of earlier steps: by variables that keep objects of these steps; or, if there
    # are none, by variables that keep an object of the last step which refers back to them; or else about cycles.
    holders, lost = Holders(frame), list[Alive]()
    for is_carried in (False, True):
        found, without = _by_variable([one for one in alive if one.is_carried is is_carried], holders)
        lost += without
        if found:
            return [_held(holder, own) for holder, own in found]
    return _cycles(lost)


def _by_variable(alive: Sequence[Alive], holders: Holders) -> tuple[list[tuple[Holder, list[Alive]]], list[Alive]]:
    # The variables that keep several steps, each once with everything that it leads to; and what no variable leads to.
    # The largest array gives the finding its name.
    alive = sorted(alive, key=lambda one: -one.nbytes if one.kind == "arrays" else 0)
    found: dict[tuple[str, str], tuple[Holder, list[Alive]]] = {}
    lost: list[Alive] = []
    for one, holder in zip(alive, holders.of([one.held for one in alive]), strict=True):
        if holder is None:
            lost.append(one)
        else:
            found.setdefault((one.kind, holder.path.partition("[")[0]), (holder, []))[1].append(one)
    grown = [(holder, own) for holder, own in found.values() if len(_steps(own)) > 1]
    return grown, lost


def _steps(own: Sequence[Alive]) -> frozenset[int]:
    # The steps of some objects together.
    return frozenset().union(*(one.steps for one in own))


def _held(holder: Holder, own: Sequence[Alive]) -> Held:
    steps = _steps(own)
    of_step: dict[frozenset[int], list[int]] = defaultdict(list)
    for one in own:
        of_step[one.steps].append(one.nbytes)
    # graphs of the same step share most of the memory that they keep
    together = sum if own[0].kind == "arrays" else max
    kept = sum(map(together, of_step.values()))
    made = own[-1].source
    source, remedy = filled_at(holder, made, own[0].without, is_carried=own[0].is_carried)
    if not remedy and source is None and own[0].without:
        remedy = put_into(holder.name, made, own[0].without)
    at = source or made
    line = "" if at is None else f" at {where(at)}"
    text = f"`{holder.path}`, {holder.kind}, keeps {own[0].called} {len(steps):,} earlier steps, {size(kept)}{line}" + (
        f": `{at.text}`" if at is not None else ""
    )
    return Held(own[0].kind, holder.path, len(steps), kept, at, text, remedy if own[0].without else own[0].next)


def _cycles(lost: Sequence[Alive]) -> list[Held]:
    # Findings about graphs to which no variable leads, one for each line that made graphs of several steps.
    cycles: dict[Source | None, list[Alive]] = defaultdict(list)
    for one in lost:
        # arrays without a variable are in a cache of the framework, which the program cannot change
        if one.kind == "graphs":
            cycles[one.source].append(one)
    found = []
    for source, own in cycles.items():
        steps = _steps(own)
        if len(steps) > 1 and not own[0].is_carried:
            kept = sum(one.nbytes for one in own)
            text, remedy = about_cycle(len(steps), kept, source)
            found.append(Held("cycle", "", len(steps), kept, source, text, remedy))
    return found


def _of_others(measured: MeasuredMemory) -> list[Held]:
    found = []
    for other in measured.kept:
        text, remedy = (about_hooks if other.kind == "hooks" else about_gradients)(other)
        found.append(Held(other.kind, other.name, other.count, other.nbytes, other.source, text, remedy))
    return found
