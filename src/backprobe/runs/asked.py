"""Looks up names, fields and steps that a user requests from a run. Errors for unknown ones suggest the nearest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from backprobe.errors import AmbiguousName, BadName, BadOption, UnknownName, UnknownStep
from backprobe.findings.phrasing import listed, plural
from backprobe.record.brief import cut, kind, written
from backprobe.record.names import COUNT, canonical, nearest, outside

NEAR = 3  # an error about an unknown step lists the nearest steps, twice this number of them


def field_kind(field: Any, known: Sequence[str], asked: str) -> str:
    """The kind of numbers that a field belongs to, such as ``grad``. Raises BadOption for a field that the run does not
    have.
    """
    if field not in known:
        close = nearest(field, known) if isinstance(field, str) else []
        raise BadOption(
            f"this run has no field {cut(written(field))}",
            asked=asked,
            found=f"{plural(len(known), 'field')}, the nearest: {listed(close)}" if close else listed(known),
            next=asked.rpartition(written(field))[0] + f"{close[0]!r})" if close else "run.fields, for every field",
        )
    return str(field).partition(".")[0]


def check_kind(name: str, wanted: str, rows: Iterable[tuple[str, str]], asked: str) -> None:
    """Raises BadOption if a name has no numbers of a kind. ``rows`` are the names with their kinds."""
    kinds = [one for other, one in rows if other == name]
    if wanted not in kinds:
        known = "logged" if kinds == ["logged"] else f"{kinds[0]}.rms"
        raise BadOption(
            f"{name!r} has no {wanted}",
            asked=asked,
            found=f"it has {listed(kinds)}",
            next=f"run.series({name!r}, {known!r})",
        )


def row_name(name: Any, names: Iterable[str], aliases: Mapping[str, str], asked: str) -> str:
    """The name of a row, for any of its spellings. Raises BadName for a name with counts, UnknownName if no row has the
    name, and AmbiguousName if it stands for several rows.
    """
    known = dict.fromkeys(names)
    if not isinstance(name, str):
        raise BadName(f"a name is a text, not {kind(name)}", asked=asked, next="run.names, for every name")
    if name in known:
        return name
    read = outside(name)
    if any(read[found.start()] for found in COUNT.finditer(name)):
        raise BadName(
            f"a run has no counts: {cut(name)!r} asks for one of several calls",
            asked=asked,
            why="a name means all its calls in a step, merged",
            next=asked.replace(name, COUNT.sub("", name)),
        )
    full = canonical(name)
    for one in (full, full.removeprefix(":"), full.removesuffix(":return"), aliases.get(full), f":{full}"):
        if one in known:
            return one  # type: ignore[return-value]  # None is in no run
    beginning = f"{full.removeprefix(':')}." if ":" in full or full == "return" else f"{full}:return."
    leaves = [one for one in known if one.startswith(beginning)]
    if len(leaves) == 1:
        return leaves[0]
    if leaves:
        raise AmbiguousName(
            f"{cut(name)!r} returns several tensors",
            asked=asked,
            found=listed(leaves),
            next=asked.replace(name, leaves[0]),
        )
    close = nearest(name, [*known, *aliases])
    raise UnknownName(
        f"no row is named {cut(name)!r}",
        asked=asked,
        found=plural(len(known), "name") + (f", the nearest: {listed(close)}" if close else ""),
        next=asked.replace(name, close[0]) if close else "run.names, for every name",
    )


def unknown_step(step: Any, steps: Sequence[int]) -> UnknownStep:
    """The error about a step that is not in the run."""
    asked = f"run.at({cut(written(step))})"
    if not is_number(step):
        return UnknownStep(
            f"a step is a number, not {cut(written(step))}", asked=asked, next="run.steps, for every step"
        )
    near = sorted(sorted(steps, key=lambda one: abs(one - step))[: 2 * NEAR])
    return UnknownStep(
        f"the run has no step {step}",
        asked=asked,
        found=f"{plural(len(steps), 'step')}, the nearest: {listed(near)}" if near else "no step so far",
        next=f"run.at({min(near, key=lambda one: abs(one - step))})" if near else "run.steps, when one was written",
    )


def is_number(step: Any) -> bool:
    return hasattr(step, "__index__") and not isinstance(step, bool)
