"""Births of NaN and Inf: one report on forward and backward, from the recording alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter

from backprobe.backends.discover import load_arrays
from backprobe.explain.nonfinite.backward_births import BackwardPass
from backprobe.explain.nonfinite.evidence import Evidence
from backprobe.explain.nonfinite.forward_births import ForwardPass
from backprobe.explain.nonfinite.states import WORDS
from backprobe.explain.nonfinite.text import at_line, finding, say
from backprobe.explain.nonfinite.updates import spread, with_updates
from backprobe.findings.phrasing import listed, plural
from backprobe.findings.report import Finding, Report
from backprobe.record.entries import Record
from backprobe.record.names import COUNT


def explain_nonfinite(record: Record) -> Report:
    """The births first, in the order in which they happened, then what was healed and what they spread to."""
    known = Evidence(record, load_arrays(record.backend))
    forward = ForwardPass(known)
    backward = BackwardPass(forward)
    born = [at for at in forward.origins if not forward.is_harmless(at, backward.read)]
    harming = [at for at in forward.origins if at in born or at in backward.owners]
    found = sorted([*forward.births(born), *backward.births()], key=itemgetter(0))
    births = with_updates([one for _, one in found], record) or list(_unexplained(known))
    notes = [*forward.notes(forward.origins.keys() - harming), *([] if known.was_asked else [say("late")])]
    if not births:
        return Report(_clean(known), (), tuple(notes))
    places, healed = _grouped(births), _grouped(list(forward.healed(harming)))
    rest = [*healed, *_propagated(known, births), *spread(record, births)]
    return Report(_heading(places), (*places, *rest), tuple(notes))


def _grouped(found: Sequence[Finding]) -> list[Finding]:
    """Findings of one kind at one line, as in the turns of a loop, are reported once, with the first of them.

    What comes in where no line is known is grouped with later versions of the same name.
    """
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
    """A bad output or gradient for which no place was found where it began: such a recording is not called clean."""
    values = [("output_unexplained", at, known.values[at]) for at in known.bad_outputs]
    grads = [("gradient_unexplained", at, known.grads[at]) for at in known.bad_grads]
    for code, at, state in (values or grads)[:1]:
        yield known.finding(at, code, word=WORDS[state], remedy=say("see_more"))


def _clean(known: Evidence) -> str:
    counted = [entry.finiteness for entry in known.entries if entry.finiteness is not None]
    values, grads = sum(one.value is not None for one in counted), sum(one.grad is not None for one in counted)
    return say("clean", values=values, grads=grads)


def _heading(born: Sequence[Finding]) -> str:
    first = born[0]
    return say("begins_at", places=plural(len(born), "place"), first=repr(first.name) + at_line(first.source))


def _propagated(known: Evidence, born: Sequence[Finding]) -> list[Finding]:
    """All else that holds NaN or Inf, in one finding."""
    places = {one.name for one in born}
    values = [name for name in known.names(sorted(known.bad_values)) if name not in places]
    grads = known.names(known.bad_grads)
    spread = [(what, names) for what, names in (("more value", values), ("gradient", grads)) if names]
    facts = [say("spread_to", counted=plural(len(names), what), names=listed(names)) for what, names in spread]
    if not facts:
        return []
    outputs = ", ".join(map(known.name, known.bad_outputs))
    code = "propagated_to" if outputs else "propagated"
    return [finding(code, spread[0][1][0], None, facts=facts, outputs=outputs)]
