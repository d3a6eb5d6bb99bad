"""The texts of ``provoke``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from backprobe.findings.phrasing import plural, shorten
from backprobe.provoke.inputs import Inputs, Variable
from backprobe.provoke.program import Broken
from backprobe.provoke.risks import Risk
from backprobe.provoke.search import SearchOutcome
from backprobe.record import reasons
from backprobe.record.brief import place

SENTENCES = {
    "breaks": "`{text}` gives NaN or Inf",
    "breaks_backward": "`{text}` gives NaN or Inf in the backward pass",
    "elsewhere": "NaN or Inf, at another place than was searched: {headline}",
    "example_breaks": "the example itself gives NaN or Inf",
    "change": "{name}: {before} in the example, {after} here",
    "more_changes": "{count} more changed",
    "operand": "{end}`{operand}`: {before} in the example, {after} here",
    "found": "found after {steps}; the largest change is {change} of the bounds",
    "reached": "`{text}` ({place}): {end} operand reached {after} ({before} in the example{limit})",
    "held_out": "`{text}` ({place}): `{operand}` reached {after}, and nothing broke by this operation",
    "fixed": "`{text}` ({place}): nothing that was varied changes `{operand}`",
    "not_searched": "`{text}` ({place}) was not searched: {why}",
    "unnamed": "`{text}` was not searched: its operand has no name",
    "not_float": "`{text}` was not searched: its operand is not a floating-point tensor, so no gradient reaches it",
    "one_number": "{name} is one number in the example, and varied from {low} to {high}",
    "zeros": "{name} is 0 in the example and was left so",
    "not_finite_example": "{name} is not finite in the example and was left so",
    "raised": "the program raised {error} at {times}, which were left out",
    "interrupted": "interrupted: {left} not searched to the end",
    # Headings.
    "broke": "{name} breaks at {places} of {risky}",
    "stands": "{name} did not break: {risky}, {steps}",
    "nothing_searched": "{name} has no risky operation that could be searched",
    "nothing_risky": "no risky operation on the arguments of {name} was recorded",
    "broke_at_example": "{name} breaks at the example itself",
}

ENDS = {"below": "smallest", "above": "largest", "zero": "nearest to 0"}
MOST = 4


def say(code: str, **fields: object) -> str:
    """The sentence for a code."""
    return reasons.render(code, SENTENCES[code], fields)


def number(value: float) -> str:
    return f"{value + 0.0:.6g}"  # adding 0.0 removes the sign of a negative zero


def headline(risk: Risk, broken: Broken) -> str:
    return say("breaks" if broken == "result" else "breaks_backward", text=shorten(risk.text))


def facts(risk: Risk | None, inputs: Inputs, after: float | None, row: Any, steps: int) -> Iterator[str]:
    """The facts about a row: the changed numbers, and the operand's number."""
    yield from changes(inputs, row)
    is_shown = risk is not None and risk.of == 1 and risk.operand_text in [one.name for one in inputs.variables]
    if risk is not None and after is not None and not is_shown:
        yield say(
            "operand",
            end=f"{ENDS[risk.goal.side]} of " if risk.of > 1 else "",
            operand=shorten(risk.operand_text),
            before=number(risk.example),
            after=number(after),
        )
    if steps:
        part = f"{100 * change(inputs, row):.3g} %"
        yield say("found", steps=plural(steps, "tried input"), change=part)


def change(inputs: Inputs, row: Any) -> float:
    """The largest change of a number, relative to the width of its bounds."""
    width = numpy.where(inputs.width > 0, inputs.width, 1.0)
    return float((numpy.abs(row - inputs.example) / width).max())


def changes(inputs: Inputs, row: Any) -> Iterator[str]:
    """Sentences about the numbers that changed most."""
    changed = [at for at in range(row.size) if row[at] != inputs.example[at]]
    changed.sort(key=lambda at: -abs(row[at] - inputs.example[at]))
    for at in sorted(changed[:MOST]):
        yield say("change", name=element(inputs, at), before=number(inputs.example[at]), after=number(row[at]))
    if len(changed) > MOST:
        yield say("more_changes", count=plural(len(changed) - MOST, "number"))


def element(inputs: Inputs, at: int) -> str:
    """The name of one number in a row, such as ``x[0, 1]``."""
    one: Variable = next(one for one in inputs.variables if one.span.start <= at < one.span.stop)
    shape = tuple(one.tensor.shape)
    if not shape:
        return one.name
    return f"{one.name}[{', '.join(map(str, numpy.unravel_index(at - one.span.start, shape)))}]"


def how_far(outcome: SearchOutcome) -> str:
    """A sentence about a search that broke nothing: how far the operand came."""
    risk, nearest = outcome.risk, outcome.nearest
    where = {"text": shorten(risk.text), "place": place(risk.source.file, risk.source.line)}
    if nearest is None:
        return say("not_searched", why=outcome.why_not, **where)
    fields = {"operand": shorten(risk.operand_text), "after": number(nearest.number), **where}
    if not outcome.has_moved:
        return say("fixed", **fields)
    if nearest.is_there:
        return say("held_out", **fields)
    limit = f"; it may break at {number(risk.goal.limit)}" if risk.goal.limit else ""
    return say("reached", end=ENDS[risk.goal.side], before=number(risk.example), limit=limit, **fields)


def heading(name: str, places: int, risky: int, steps: int, has_unsearched: bool = False) -> str:
    operations = plural(risky, "risky operation")
    if places:
        return say("broke", name=name, places=places, risky=operations)
    if risky:
        return say("stands", name=name, risky=operations, steps=plural(steps, "tried input"))
    return say("nothing_searched" if has_unsearched else "nothing_risky", name=name)
