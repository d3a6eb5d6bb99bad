"""The values to attribute: floating tensors that both runs have, with the same shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from backprobe.attribute.asked import AskedAttribution
from backprobe.errors import BadOption, NothingMatched
from backprobe.findings.phrasing import listed, quoted
from backprobe.probe.request import name_of, typed_as
from backprobe.record.brief import written
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.graph import Graph
from backprobe.record.inputs import Edge
from backprobe.record.names import strip
from backprobe.record.patterns import compile_pattern, matcher
from backprobe.recording import Recording

NO_VALUE = (GradStatus.NOT_TENSOR, GradStatus.NOT_FLOAT, GradStatus.NOT_EXECUTED)


@dataclass(frozen=True)
class AttributedValue:
    """A value with its printed name, its full name, the name used to replace it, its position and its entry.

    ``is_named`` is True if the user gave the value's name, and False if a pattern matched the value.
    """

    name: str
    full: str
    key: str
    at: int
    entry: Entry
    is_named: bool

    def without_tensors(self) -> AttributedValue:
        """A copy without tensors."""
        return replace(self, entry=without_tensors(self.entry))


def selected(asked: AskedAttribution, in_function: bool, recording: Recording, select: Any) -> list[AttributedValue]:
    """The floating tensors that patterns match, without parameters and the output. Raises NothingMatched."""
    record = recording.record
    selects, left_out = matcher(select, in_function=in_function), Graph.of(record).parameters | {*record.outputs}
    named = [compile_pattern(text, in_function=in_function) for text in asked.exact_names]
    matched = {at: full for full, at in reversed([*record.names.items()]) if selects(full)}
    found = []
    for at, full in sorted(matched.items()):
        entry, name = record.entries[at], record.printed[full]
        if at in left_out or entry.shape is None or entry.status in NO_VALUE:
            continue
        key = strip(full) if strip(name) == name else full
        found.append(AttributedValue(entry.name, full, key, at, entry, any(one.matches(full) for one in named)))
    if not found:
        raise NothingMatched(
            f"{written(select)} matches nothing in {name_of(asked.target)} that can be attributed",
            asked=asked.call,
            found=quoted([record.printed[full] for full in matched.values()]) if matched else "nothing",
            why="attributed are floating-point values; parameters are the same in both runs, and the output is what "
            "they are attributed to",
            next=f"bp.names({typed_as(asked.target)}), for every name",
        )
    return found


def compared(asked: AskedAttribution, corrupt: Sequence[AttributedValue], clean: Sequence[AttributedValue]) -> None:
    """Raise BadOption if a value exists in only one of the runs, or differs in shape or dtype."""
    sides = {"corrupt": {one.full: one for one in corrupt}, "clean": {one.full: one for one in clean}}
    for which, other in (("corrupt", "clean"), ("clean", "corrupt")):
        alone = [one.name for full, one in sides[which].items() if full not in sides[other]]
        if alone:
            raise BadOption(
                f"{listed(alone, 4)} {'is' if len(alone) == 1 else 'are'} in the {which} run alone",
                asked=asked.call,
                why="a value is compared with that of the same name in the other run, which took another way",
                next="a pattern of values that both runs have, or arguments with which both go the same way",
            )
    for full, one in sides["corrupt"].items():
        partner = sides["clean"][full].entry
        for part in ("shape", "dtype"):
            own, its = getattr(one.entry, part), getattr(partner, part)
            if own != its:
                raise BadOption(
                    f"{one.name!r} has another {part} in the clean run",
                    asked=asked.call,
                    found=f"{part} {its} in the clean run, {own} in the corrupt run",
                    why="the difference of both is taken element by element",
                    next="arguments of the same shapes and dtypes for both runs, such as texts of as many tokens",
                )


def without_tensors(entry: Entry) -> Entry:
    """A copy of an entry without value and gradient, and with edges that have no numbers."""
    inputs = tuple([Edge(edge.at, name=edge.name) for edge in entry.inputs])
    return replace(entry, held_value=None, held_grad=None, held_original=None, inputs=inputs)


def without_values(record: Record) -> Record:
    """A copy of a record without tensors: its names, lines and edges."""
    return replace(record, entries=tuple(map(without_tensors, record.entries)))


def first_of(values: Sequence[AttributedValue], record: Record) -> list[AttributedValue]:
    """The values that depend on no other value of the list."""
    own = {value.at for value in values}
    return [value for value in values if not any(edge.at in own for edge in record.entries[value.at].inputs)]
