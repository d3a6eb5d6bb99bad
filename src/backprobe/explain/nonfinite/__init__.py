"""Births of NaN and Inf: one report on forward and backward, from the recording alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter

from backprobe.backends.discover import load_arrays
from backprobe.explain.nonfinite.backward import BackwardPass
from backprobe.explain.nonfinite.evidence import Evidence
from backprobe.explain.nonfinite.forward import ForwardPass
from backprobe.explain.nonfinite.states import WORDS
from backprobe.explain.nonfinite.text import LATE, SEE_MORE
from backprobe.explain.nonfinite.updates import spread, with_updates
from backprobe.findings.phrasing import place, plural
from backprobe.findings.report import Finding, Report
from backprobe.record.entries import Record
from backprobe.record.names import COUNT

MOST = 8  # names of a list


def explain_nonfinite(record: Record) -> Report:
    """The births first, in the order in which they happened, then what was healed and what they spread to."""
    known = Evidence(record, load_arrays(record.backend))
    forward = ForwardPass(known)
    backward = BackwardPass(forward)
    found = [*forward.births(backward.read, backward.folded()), *backward.births()]
    born = with_updates([finding for _, finding in sorted(found, key=itemgetter(0))], record)
    born = born or list(_unexplained(known))
    notes = [*forward.harmless(backward.read, backward.owners), *([] if known.was_asked else [LATE])]
    if not born:
        return Report(_clean(known), (), tuple(notes))
    places = _grouped(born)
    healed = _grouped(list(forward.healed(backward.read, backward.owners)))
    rest = [*healed, *_propagated(known, born), *spread(record, born)]
    return Report(_heading(places), (*places, *rest), tuple(notes))


def _grouped(found: Sequence[Finding]) -> list[Finding]:
    """Findings of one kind at one line, as in the turns of a loop, are reported once, with the first of them.

    What comes in where no line is known is grouped with later versions of the same name.
    """
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for at, finding in enumerate(found):
        same = COUNT.sub("", finding.headline)
        nowhere = (finding.kind, COUNT.sub("", finding.name)) if finding.kind == "came_in" else (at,)
        key = nowhere if finding.source is None else (finding.kind, finding.source, same)
        groups.setdefault(key, []).append(finding)
    return [_first(group) for group in groups.values()]


def _first(group: Sequence[Finding]) -> Finding:
    first, *others = group
    if not others:
        return first
    names = ", ".join(other.name for other in others[:MOST]) + " …" * (len(others) > MOST)
    return replace(first, facts=(*first.facts, f"this happens {plural(len(others), 'more time')}: {names}"))


def _unexplained(known: Evidence) -> Iterator[Finding]:
    """A bad output or gradient for which no place was found where it began: such a recording is not called clean."""
    values = [(at, known.values[at], "the output") for at in known.bad_outputs]
    grads = [(at, state, "the gradient of") for at, state in enumerate(known.grads) if state.is_bad]
    for at, state, what in (values or grads)[:1]:
        headline = f"{what} {known.name(at)} holds {WORDS[state]}, and where that began is not known"
        yield known.finding("unknown", at, headline, (), remedy=SEE_MORE)


def _clean(known: Evidence) -> str:
    counted = [entry.finiteness for entry in known.entries if entry.finiteness is not None]
    values, grads = sum(one.value is not None for one in counted), sum(one.grad is not None for one in counted)
    return f"no NaN or Inf comes to an output or a gradient: {values} values and {grads} gradients were checked"


def _heading(born: Sequence[Finding]) -> str:
    first = born[0]
    where = "" if first.source is None else f" ({place(first.source.file, first.source.line)})"
    return f"NaN or Inf begins at {plural(len(born), 'place')}, first at {first.name!r}{where}"


def _propagated(known: Evidence, born: Sequence[Finding]) -> list[Finding]:
    """All else that holds NaN or Inf, in one finding."""
    places = {finding.name for finding in born}
    values = [name for name in known.names(sorted(known.bad_values)) if name not in places]
    grads = known.names(at for at, state in enumerate(known.grads) if state.is_bad)
    if not values and not grads:
        return []
    facts = tuple(
        f"{plural(len(names), what)}: {', '.join(names[:MOST])}{' …' * (len(names) > MOST)}"
        for what, names in (("more value", values), ("gradient", grads)) if names
    )  # fmt: skip
    outputs = ", ".join(map(known.name, known.bad_outputs))
    reached = f", and come to the output {outputs}" if outputs else ""
    return [Finding("propagated", (values or grads)[0], f"NaN and Inf spread from there{reached}", None, facts)]
