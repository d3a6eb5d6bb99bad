"""Reports where NaN and Inf first arise, in the forward and the backward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from operator import itemgetter

from backprobe.backends.discover import load_arrays
from backprobe.errors import BackprobeError
from backprobe.explain.nonfinite import diverging
from backprobe.explain.nonfinite.arithmetic import FAILING
from backprobe.explain.nonfinite.backward_births import BackwardPass
from backprobe.explain.nonfinite.evidence import Derivative, Evidence, not_asked
from backprobe.explain.nonfinite.forward_births import ForwardPass
from backprobe.explain.nonfinite.states import WORDS, Badness
from backprobe.explain.nonfinite.text import finding, heading, say
from backprobe.explain.nonfinite.updates import spread, with_updates
from backprobe.findings.phrasing import listed, plural
from backprobe.findings.report import Finding, Report
from backprobe.record.entries import Record
from backprobe.record.graph import Graph, reached
from backprobe.record.names import COUNT
from backprobe.record.quoted_errors import first_line

SPREAD = ("propagated", "propagated_to")
BIRTHS = ("born", "born_backward", "came_in", "came_in_backward", "unknown")
"""The kinds of findings on where NaN and Inf begin."""


def explain_nonfinite(record: Record, derivative: Derivative = not_asked) -> Report:
    """Report the births of NaN and Inf in the order in which they happened, then where they vanished and spread to.

    A birth is an operation that makes NaN or Inf from finite numbers, or NaN from Inf. Values and gradients that came
    in with NaN or Inf are listed among the births. If evaluating the recorded lines again raises an error, the report
    is incomplete, and a note says so. ``derivative`` is called to ask the framework for a derivative.
    """
    known = Evidence(record, load_arrays(record.backend), derivative)
    try:
        return _explained(record, known)
    except FAILING as error:
        if isinstance(error, BackprobeError):
            raise
        said = (say("failed", error=first_line(error)),)
        return Report(say("births_unjudged"), tuple(_unexplained(known)), said, complete=False)


def _explained(record: Record, known: Evidence) -> Report:
    forward = ForwardPass(known)
    backward = BackwardPass(forward)
    spoiled = backward.spoiled()
    born = [at for at in forward.origins if at in spoiled or not forward.is_harmless(at, backward.read)]
    harming = [at for at in forward.origins if at in born or at in backward.owners]
    masks = forward.masks - spoiled.keys() - set(backward.read)
    found = sorted(
        [*forward.births([at for at in born if at not in masks], spoiled), *backward.births()], key=itemgetter(0)
    )
    births = with_updates([one for _, one in found], record) or list(_unexplained(known))
    is_late = not known.was_asked and _clean(known) != say("unread")
    notes = [*forward.notes(forward.origins.keys() - harming), *known.unjudged, *([say("late")] if is_late else [])]
    if not births:
        return Report(_clean(known), (), tuple(notes), complete=_clean(known) != say("unread"))
    began = Graph.of(record).positions.get(births[0].name, 0)
    births = diverging.explained(births, diverging.losses(known, began), record.framework)
    places, healed = hung(_grouped(births)), _grouped(list(forward.healed(harming)))
    roots = [one for one in places if not one.cause]
    only = roots[0].headline if len(roots) == 1 else ""
    after = [replace(one, cause=only) if one.kind in SPREAD else one for one in _propagated(forward, backward, births)]
    rest = [*healed, *after, *spread(record, births)]
    return Report(heading(roots), (*places, *rest), tuple(notes))


def is_nonfinite(one: Finding) -> bool:
    """Is a finding about NaN and Inf?"""
    return one.kind in (*BIRTHS, *SPREAD, "healed")


def hung(births: Sequence[Finding]) -> list[Finding]:
    """Return the births, with a NaN that arose from an Inf placed below the birth of that Inf.

    An Inf that the program writes itself, such as a mask, is harmless until it produces a NaN. In that case the NaN is
    the cause, and the Inf is placed below it.
    """
    found = list(births)
    for at, one in enumerate(births):
        way = [i for i, before in enumerate(births[:at]) if one.name in before.chain] if _is_of_inf(one) else []
        if way and births[way[-1]].fields.get("why") == "written_out":
            found[way[-1]] = replace(births[way[-1]], cause=found[way[-1]].cause or one.headline)
        elif way:
            before = found[way[-1]]
            found[at] = replace(one, cause=before.cause or before.headline)
    return found


def _is_of_inf(birth: Finding) -> bool:
    said = say("is_born_of_inf", word=WORDS[Badness.NAN])
    return birth.kind in ("born", "born_backward") and birth.fields.get("born") == said


def _grouped(found: Sequence[Finding]) -> list[Finding]:
    # Report findings of one kind on one line only once, by the first of them, if they differ only in the counts of
    # names: each iteration of a loop gives the same finding. Values that come in with NaN or Inf from an unknown line
    # are grouped with later versions of the same name.
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for at, one in enumerate(found):
        same = tuple(COUNT.sub("", text) for text in one.fields.values())
        nowhere = (one.kind, COUNT.sub("", one.name)) if one.kind == "came_in" else (at,)
        groups.setdefault(nowhere if one.source is None else (one.kind, one.source, same), []).append(one)
    return [_first(group) for group in groups.values()]


def _first(group: Sequence[Finding]) -> Finding:
    first, *others = group
    if not others:
        return first
    names = listed([other.name for other in others])
    return replace(first, facts=(*first.facts, say("repeated", times=plural(len(others), "more time"), names=names)))


def _unexplained(known: Evidence) -> Iterator[Finding]:
    # Yield a finding on the first output, or else the first gradient, with NaN or Inf, if there is one. It is used if
    # no origin was found, because such a recording must not be called clean.
    values = [("output_unexplained", at, known.values[at]) for at in known.bad_outputs]
    grads = [("gradient_unexplained", at, known.grads[at]) for at in known.bad_grads]
    for code, at, state in (values or grads)[:1]:
        yield known.finding(at, code, word=WORDS[state], remedy=say("see_more"))


def _clean(known: Evidence) -> str:
    counted = [entry.finiteness for entry in known.entries if entry.finiteness is not None]
    values, grads = sum(one.value is not None for one in counted), sum(one.grad is not None for one in counted)
    if not values and not grads:
        return say("unread")
    return say("clean", values=plural(values, "value"), grads=plural(grads, "gradient"))


def _propagated(forward: ForwardPass, backward: BackwardPass, births: Sequence[Finding]) -> list[Finding]:
    # Return up to two findings on the names that hold NaN or Inf and are no births: one on the names to which recorded
    # paths lead from where NaN or Inf began, and one on the others.
    known, positions = forward.known, Graph.of(forward.known.record).positions
    places = {positions[one.name] for one in births if one.name in positions} | forward.masks
    starts = places | backward.owners | forward.origins.keys() | forward.following
    values = reached(starts, lambda at: known.bad_values.intersection(known.consumers[at])) & known.bad_values
    grads = backward.spread(starts | values)
    outputs = ", ".join(map(known.name, (at for at in known.bad_outputs if at in values)))
    code = "propagated_to" if outputs else "propagated"
    alone = known.bad_values - values - {at for start in forward.origins for at in forward.spread(start)}
    found = [
        _listed(known, code, values - places, grads, outputs=outputs),
        _listed(known, "apart", alone - places, set(known.bad_grads) - grads - places),
    ]
    return [one for one in found if one is not None]


def _listed(known: Evidence, code: str, values: Set[int], grads: Set[int], outputs: str = "") -> Finding | None:
    # Return one finding about several values and gradients, or None if there are none.
    every = [(what, known.names(sorted(some))) for what, some in (("more value", values), ("gradient", grads)) if some]
    facts = [say("spread_to", counted=plural(len(names), what), names=listed(names)) for what, names in every]
    return finding(code, every[0][1][0], None, facts=facts, outputs=outputs) if facts else None
