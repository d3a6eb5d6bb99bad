"""Bridging is an experiment on a line that may cut the graph: its result gets the history of the line's inputs, and
keeps its numbers.

If a gradient then arrives at the inputs, the line had cut the graph. A value may also be moved: the program continues
with other numbers, and all values change that depend on the moved value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backprobe.backends.protocol import Tape
from backprobe.record.containers import with_leaves
from backprobe.tracing.replacing import ByName, Instead, Marks, Replacing

NUMBERS = (float, int)


@dataclass(frozen=True)
class NamedBridges(Instead):
    """The values to bridge and to move in one run, by their full names. After the run, also those that were bridged."""

    from_to: Mapping[str, Collection[str]] = field(default_factory=dict)
    """For each value to bridge, the values whose history it gets."""

    moves: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    bridged: list[str] = field(default_factory=list)

    def replacing(self, tape: Tape, *, in_function: bool) -> Replacing:
        return Bridging(self, tape, in_function=in_function)


class Bridging(ByName):
    """Bridges and moves values in one run. A value that cannot be bridged or moved stays unchanged."""

    def __init__(self, bridges: NamedBridges, tape: Tape, *, in_function: bool) -> None:
        self.bridges = bridges
        self.sources = {name for names in bridges.from_to.values() for name in names}
        super().__init__((*self.sources, *bridges.from_to, *bridges.moves), tape, in_function=in_function)
        self.live: dict[str, Any] = {}

    def exchange(
        self, name: str, full: str, value: Any, found: Sequence[tuple[str, Any]], known: Container[int]
    ) -> tuple[Any, Marks]:
        if self.replaces.runs_again():
            return value, ()
        made = {leaf: new for leaf, item in found if (new := self._exchanged(full + leaf, item)) is not item}
        return (with_leaves(value, made) if made else value), ()

    def went_on(self, full: str, leaves: Sequence[tuple[str, Any]]) -> None:
        for leaf, item in leaves:
            if full + leaf in self.sources and self.tape.is_tensor(item):
                self.live[full + leaf] = item

    def _exchanged(self, full: str, item: Any) -> Any:
        # Return the value with which the program continues instead of ``item``.
        move = self.bridges.moves.get(full)
        if move is not None and self.tape.is_tensor(item) and self.tape.is_floating(item):
            item = self.replaces.with_numbers(move(item), item)  # the history is kept, and so are its derivatives
        sources = [self.live[name] for name in self.bridges.from_to.get(full, ()) if name in self.live]
        sources = [one for one in sources if self.tape.is_floating(one)]
        if not sources:
            return item
        value = self.replaces.as_tensor(item, sources[0]) if _is_number(item) else item
        if not self.tape.is_tensor(value) or not self.tape.is_floating(value):
            return item
        made = self.replaces.linked(value, sources)
        if made is None:  # for example a parameter, whose type allows no history
            made = self.replaces.linked(self.replaces.with_numbers(value, value), sources)
        if made is None or not self.tape.is_differentiated(made):
            return item
        self.bridges.bridged.append(full)
        return made


def _is_number(value: Any) -> bool:
    # Is the value a number or a NumPy array? To be bridged, it must become a tensor of the framework.
    return (isinstance(value, NUMBERS) and not isinstance(value, bool)) or type(value).__module__ == "numpy"
