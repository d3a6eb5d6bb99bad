"""The missing rows of a run, each with the reason: the answer of ``run.gaps``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from backprobe.findings.phrasing import listed, plural, quoted
from backprobe.findings.report import Report
from backprobe.record.gaps import GapCode
from backprobe.rules.gap import Gap
from backprobe.storage.runs.layout import IS_OPEN

if TYPE_CHECKING:
    from backprobe.storage.runs.merged import RunReader

MOST = 6  # stretches of steps that a line lists
Steps = tuple[int, ...]
Cause = tuple[GapCode, tuple[str, ...], Steps]
"""The fields that distinguish gaps: the reason, the missing kinds of numbers, and the steps."""


def gaps(reader: RunReader) -> Report:
    """The gaps of a run by step. Steps that are missing entirely come first."""
    whole = list(_of_steps(reader))
    found = whole + sorted(_of_names(reader), key=lambda one: one.steps[0])
    heading = plural(len(found), "gap") if found else "no gaps"
    return Report(f"{heading}: {plural(len(reader.info()), 'step')} were looked at", tuple(found))


def _of_steps(reader: RunReader) -> Iterator[Gap]:
    info, attempts = reader.info(), reader.attempts()
    steps = info["step"]
    if not attempts:
        return
    every = max(int(one.facts.get("every", 1)) for one in attempts)
    is_measured = info["step"] % every == 0
    skipped, is_open = info["skipped"] == 1, info["skipped"] == IS_OPEN
    has_nan = numpy.isin(info["step"], _with_nan(reader)) if skipped.any() else skipped
    for code, mask in (
        (GapCode.SKIPPED, skipped & ~has_nan),
        (GapCode.SKIPPED_NAN, skipped & has_nan),
        (GapCode.OPEN, is_open),
        (GapCode.NO_BACKWARD, is_measured & ~skipped & ~is_open & (info["backwards"] == 0)),
    ):
        if mask.any():
            yield _gap((), code, (), info["step"][mask].tolist())
    if len(steps):
        planned = numpy.arange(-(-steps[0] // every) * every, steps[-1], every)
        between = planned[~numpy.isin(planned, steps)].tolist()
        if between:
            yield _gap((), GapCode.NOT_WRITTEN, (), between)
    if "ended" not in attempts[-1].facts:
        yield _gap((), GapCode.CUT_SHORT, (), [int(steps[-1]) + 1 if len(steps) else 0])


def _with_nan(reader: RunReader) -> Any:
    # The steps in which a value of the forward was NaN.
    steps, table = reader.field(reader.names_of("value"), "value.nan")
    return steps[(numpy.nan_to_num(table) > 0).any(axis=0)]


def _of_names(reader: RunReader) -> Iterator[Gap]:
    # Gaps of names. Names with the same reason, steps and missing kinds of numbers share one gap.
    by_step: dict[tuple[str, str, int], list[str]] = {}
    for step, name, kind, code in reader.gaps():
        by_step.setdefault((name, code, step), []).append(kind)
    by_name: dict[tuple[str, str, tuple[str, ...]], list[int]] = {}
    for (name, code, step), missing in by_step.items():
        by_name.setdefault((name, code, tuple(missing)), []).append(step)
    together: dict[Cause, list[str]] = {}
    for (name, code, kinds), at in by_name.items():
        together.setdefault((GapCode(code), kinds, tuple(sorted(at))), []).append(name)
    lost = _lost(together)
    for cause, names in together.items():
        if cause[0] is GapCode.EMPTY_GRADIENT:
            below = {name for (steps, name) in lost if steps == cause[2]}
            names = [name for name in names if name not in below]
        if names:
            yield _gap(names, *cause, [name for (_, name), other in lost.items() if other == cause])


def _lost(together: Mapping[Cause, list[str]]) -> dict[tuple[Steps, str], Cause]:
    # Parameters that lack a gradient in exactly the steps in which a module around them has a gap, each with the gap of
    # the innermost such module.
    modules = {
        (steps, name): (code, kinds, steps) for (code, kinds, steps), names in together.items() for name in names
    }
    found: dict[tuple[Steps, str], Cause] = {}
    for (code, _, steps), names in together.items():
        for name in names if code is GapCode.EMPTY_GRADIENT else ():
            around = [name[:at] for at, char in enumerate(name) if char == "." and (steps, name[:at]) in modules]
            if around:
                found[steps, name] = modules[steps, around[-1]]
    return found


def _gap(
    names: Sequence[str], code: GapCode, kinds: tuple[str, ...], steps: Sequence[int], lost: Sequence[str] = ()
) -> Gap:
    when = _stretches(steps)
    if names:
        has = "has" if len(names) == 1 else "have"
        headline = f"{quoted(names)} {has} no {listed(kinds)} in {when}: {code.meaning}"
    elif code is GapCode.CUT_SHORT:
        headline = f"nothing from step {steps[0]} on: {code.meaning}"
    else:
        headline = f"{when}: {code.meaning}"
    facts = (f"in the same steps there is no gradient of {quoted(lost)}",) if lost else ()
    return Gap(
        code.value,
        names[0] if names else "",
        headline,
        facts=facts,
        lost=tuple(lost),
        steps=tuple(steps),
        kinds=kinds,
        names=tuple(names),
    )


def _stretches(steps: Iterable[int]) -> str:
    """Steps in words. Steps that follow each other at the most frequent distance are written as a range.

    >>> _stretches([3]), _stretches([0, 10, 20, 25])
    ('step 3', 'steps 0 to 20 (3), 25')
    """
    numbers: Any = numpy.array(list(steps))
    if len(numbers) == 1:
        return f"step {numbers[0]}"
    apart = numpy.diff(numbers)
    widths, counts = numpy.unique(apart, return_counts=True)
    ends = numpy.flatnonzero(apart != widths[counts.argmax()]) + 1
    parts = numpy.split(numbers, ends)
    said = [f"{part[0]} to {part[-1]} ({len(part)})" if len(part) > 1 else str(part[0]) for part in parts[:MOST]]
    more = f" and {len(parts) - MOST} more stretches" if len(parts) > MOST else ""
    return f"steps {', '.join(said)}{more}"
