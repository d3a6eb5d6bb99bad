"""The texts of a comparison."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backprobe.diff.floor import Floor, Measured
from backprobe.diff.likeness import Likeness
from backprobe.diff.matches import BY_NAME
from backprobe.diff.measure import MANY, Index, Measure
from backprobe.diff.pairs import DTYPE, SHAPE, STATUS, JudgedNumbers, Row
from backprobe.diff.rounding import ULPS, Rounding
from backprobe.findings import phrasing as findings
from backprobe.findings.phrasing import listed, location, plural, quoted
from backprobe.record.brief import sizes
from backprobe.record.entries import Entry

MOST = 4  # the largest number of names in a fact
CHECK = "bp.check(f)(...) compares the derivatives of this line with finite differences"

NOISE = "noise=bp.noise_floor(f)(...) says whether rounding explains the error of the value, or another function"


def number(value: float) -> str:
    """Return a number as text with few digits.

    >>> number(0.000123456), number(1234567.0), number(float("inf"))
    ('0.00012', '1.2e+06', 'infinite')
    """
    return "infinite" if math.isinf(value) else f"{value:.2g}"


def times(excess: float) -> str:
    """Return an error in units of the floor as text.

    >>> times(1234.5), times(0.02), times(float("inf"))
    ('1,200 × the floor', '0.02 × the floor', 'beyond any floor')
    """
    if math.isinf(excess):
        return "beyond any floor"
    rounded = float(f"{excess:.2g}")
    return f"{rounded:,.0f} × the floor" if 100 <= rounded < 1e6 else f"{rounded:.3g} × the floor"


def named(row: Row) -> str:
    """The name of a pair; both names if they differ."""
    own, other = row.names
    return repr(own) + ("" if own == other else f" ({other!r} in the second)")


def headline(row: Row, judged: JudgedNumbers, of: str) -> str:
    """The headline of a difference; ``of`` is empty, ``argument``, ``parameter`` or ``gradient``."""
    what = {"gradient": f"the gradient of {named(row)}", "": named(row)}.get(of, f"the {of} {named(row)}")
    if judged.kind == SHAPE:
        return f"{what} has shape {_shape(row.a)} in the first, {_shape(row.b)} in the second"
    if judged.kind == DTYPE:
        return f"{what} is {row.a.dtype} in the first, {row.b.dtype} in the second"
    if judged.kind == STATUS:
        with_, without = ("first", row.b) if row.b.grad_or_none is None else ("second", row.a)
        reason = f": {without.reason}" if without.reason else ""
        which = "second" if without is row.b else "first"
        return f"{named(row)} has a gradient in the {with_}, and in the {which} it is {without.status}{reason}"
    if judged.measure is None or judged.measure.clashes:
        return f"{what} differs"
    if judged.floor is not None and not judged.floor.rms and not judged.floor.largest:
        return f"{what} differs: {judged.measure.differing:,} of {plural(judged.measure.size, 'element')}"
    return f"{what} differs: relative error {number(judged.measure.relative)}, {times(judged.excess)}"


def _shape(entry: Entry) -> str:
    return sizes(entry.shape or ()) or "()"


def evidence(inputs: Sequence[Row], of: str) -> str:
    """The fact that an entry's inputs agree; empty if there are none."""
    judged = [(row, row.gradient if of == "gradient" else row.value) for row in inputs]
    shown = [f"{row.names[0]!r} ({_error(one)})" for row, one in judged]
    what = "the gradients that it is computed from agree" if of == "gradient" else "what it is computed from agrees"
    return f"{what}: {listed(list(dict.fromkeys(shown)), MOST)}" if shown else ""


def _error(judged: JudgedNumbers) -> str:
    if judged.is_given:
        return "the first's"
    if judged.measure is None:
        return judged.why or "equal"
    if judged.is_same:
        return "the same tensor"
    return times(judged.excess) if judged.measure.differing else "equal"


def place(index: Index) -> str:
    return f"[{', '.join(map(str, index))}]" if index else "the only element"


def _clash(a: Any, b: Any) -> str:
    # Say how two numbers differ if at least one of them is not finite.
    return "neither is finite" if not cmath.isfinite(a) and not cmath.isfinite(b) else "only one is finite"


def numbers(measure: Measure, seen: Likeness, dtype: str) -> list[str]:
    """Return facts with the numbers of a difference."""
    found = []
    if seen.pair is not None and measure.at is not None:
        a, b = (f"{one:.6g}" for one in seen.pair)
        where = f" at {place(measure.at)}" if measure.size > 1 else ""
        label = f"largest error {number(measure.largest)}" if not measure.clashes else _clash(*seen.pair)
        found.append(f"{label}{where}: {a} in the first, {b} in the second")
    if measure.clashes > 1:
        found.append(f"{plural(measure.clashes, 'element')} are finite in one only, or not finite in another way")
    if seen.beyond and measure.size > 1:
        where = f", the first at {place(seen.first)}" if seen.first is not None else ""
        found.append(
            f"{seen.beyond:,} of {plural(measure.size, 'element')} {'is' if seen.beyond == 1 else 'are'} beyond the "
            f"floor{where}"
        )
    scores = [] if measure.cosine is None or measure.size == 1 else [f"cosine {_cosine(measure.cosine)}"]
    if measure.ulps:
        most = "at least" if measure.ulps == MANY.get(dtype) else "up to"
        scores.append(f"{most} {measure.ulps:,} ulps of {dtype}")
    return [*found, *([", ".join(scores)] if scores else [])]


def _cosine(cosine: float) -> str:
    # Return a cosine with enough digits to distinguish it from 1.
    away = 1 - abs(cosine)
    digits = 2 if away <= 0 else max(2, math.ceil(-math.log10(away)) + 1)
    return f"{cosine:.{min(digits, 6)}f}"


def alike(seen: Likeness) -> list[str]:
    """Return facts about a simple relation between the two arrays."""
    found = []
    if seen.factor is not None and seen.factor != 1.0:
        found.append(
            "the second is the first with the opposite sign"
            if seen.factor == -1.0
            else f"the second is {seen.factor:.6g} × the first"
        )
    if seen.order == "transposed":
        found.append("the second is the transpose of the first")
    elif seen.order:
        found.append("the second has the numbers of the first in another order")
    if seen.dtype:
        found.append(f"all numbers of the second are {seen.dtype} numbers, and not those of the first")
    return found


def floor_text(floor: Floor | None) -> str:
    """Say how a floor was determined."""
    if floor is None:
        return ""
    if isinstance(floor, Measured):
        return f"measured: {floor.origin}"
    if isinstance(floor, Rounding):
        terms = f" times the root of {floor.terms:,} terms" if floor.terms > 1 else ""
        return f"{ULPS} eps of {floor.dtype}{terms}, for one operation: what goes into it is equal bit for bit"
    if not floor.dtype:
        return "none: whole numbers are equal or not"
    return f"the root of eps of {floor.dtype}, the coarsest dtype on the way"


def matched(row: Row) -> str:
    """Say how a pair was matched; empty if the names are equal."""
    return "" if row.match.how == BY_NAME else f"matched {row.match.how}{_read(row)}"


def _read(row: Row) -> str:
    # Say which parts of a pair are compared, if not the whole entries.
    found = []
    for name, reading in zip((row.a.name, row.b.name), row.match.readings, strict=True):
        if reading.added:
            found.append(f"{name!r} with the bias that is added to it")
        if reading.of > 1:
            found.append(f"part {reading.part + 1} of {reading.of} of {name!r}")
    return f": {', '.join(found)}" if found else ""


def extra(names: Sequence[str], which: str) -> str:
    """The fact that one recording computes an entry from values that the other does not have."""
    have = "has" if len(names) == 1 else "have"
    return f"in the {which} it is computed from {quoted(names, MOST)} too, which {have} no partner"


def first_line(row: Row) -> str:
    """The fact with the line of the first recording, if the second has another line."""
    a, b = row.a.source, row.b.source
    if a is None or (b is not None and (a.file, a.line, a.text) == (b.file, b.line, b.text)):
        return ""
    return f"the first computes it in {location(a)}"


@dataclass(frozen=True)
class Counts:
    """How many pairs have values and gradients that could be compared, and how many of each differ.

    ``rounded`` are values that differ only by rounding although their inputs are equal; they do not count as agreeing.
    ``outputs_agree`` is True if the outputs agree, and every gradient that could be compared.
    """

    values: int
    gradients: int
    differing: tuple[int, int]
    rounded: int = 0
    outputs_agree: bool = False


def heading(first: str, first_backward: str, counts: Counts) -> str:
    """The heading: the result of the comparison in one sentence."""
    rounded = _rounded(counts.rounded)
    if first:
        agree = f"the output and {plural(counts.gradients, 'gradient')} agree; " * counts.outputs_agree
        gradients = (
            "" if counts.outputs_agree else (f", and {counts.differing[1]:,} of {plural(counts.gradients, 'gradient')}")
        )
        return (
            f"{agree}values differ first at {first}: {counts.differing[0]:,} of {plural(counts.values, 'value')} "
            f"differ{gradients}"
        )
    values = plural(counts.values - counts.rounded, "value")
    if first_backward:
        return (
            f"{values} agree{rounded and f', {rounded}'}; gradients differ first at {first_backward}: "
            f"{counts.differing[1]:,} of {counts.gradients:,} differ"
        )
    return f"no difference in {values} and {plural(counts.gradients, 'gradient')}{rounded and f'; {rounded}'}"


def _rounded(count: int) -> str:
    if not count:
        return ""
    return f"{plural(count, 'value')} differ{'s' * (count == 1)} by no more than rounding"


def rounded(rows: Sequence[Row]) -> str:
    """The note on values that differ only by rounding, although their inputs are equal."""
    each = [f"{row.names[0]!r} ({number(row.value.measure.relative)})" for row in rows if row.value.measure is not None]
    differ = "differs" if len(rows) == 1 else "differ"
    return f"{differ} by no more than rounding, though what goes in is equal bit for bit: {listed(each, MOST)}"


def explained(gradients: int) -> str:
    """The note that no gradient is blamed because values differ."""
    if gradients == 1:
        return "1 gradient differs, and is computed from something that differs too: it is not blamed"
    return f"{gradients:,} gradients differ, each computed from something that differs too: none is blamed"


def uses(rows: Sequence[Row]) -> str:
    """Say from which values a gradient flows back."""
    if not rows:
        return "nothing that is recorded lies between it and what was differentiated"
    return f"it flows back from {listed([findings.named(row.b) for row in rows], MOST)}"


def grown(row: Row, before: float) -> str:
    """The fact that a value differs far more than what it is computed from, though within its floor."""
    own = row.value.measure
    error = number(own.relative if own is not None else 0.0)
    return f"the value of {named(row)} differs, too, by {error}, and what it is computed from by {number(before)}"


def cut(rows: Sequence[Row]) -> str:
    """The fact that no gradient flows back from some values in the second recording; empty if there are none."""
    names = listed([findings.named(row.b) for row in rows], MOST)
    return f"in the second nothing flows back to it from {names}" if rows else ""
