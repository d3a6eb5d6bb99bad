"""Where NaN and Inf were born: one verdict over forward and backward, made of what was recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter

from backprobe.backends.discover import load_arrays
from backprobe.explain.nonfinite.backward import Backward
from backprobe.explain.nonfinite.forward import Forward
from backprobe.explain.nonfinite.sources import Sources
from backprobe.explain.nonfinite.states import WORDS, States
from backprobe.explain.nonfinite.updates import spread, with_updates
from backprobe.findings.phrasing import place
from backprobe.findings.report import Finding, Report
from backprobe.record.entries import Record
from backprobe.record.names import COUNT

LATE = (
    "recorded without nonfinite=True: what is held was judged now, and which operation of a line made a gradient NaN "
    "or Inf is not known"
)
MOST = 8  # names of a list
SEE_MORE = "every name recorded, without a selection; in JAX and TensorFlow partials=True tells more of backward"


def explain_nonfinite(record: Record) -> Report:
    """The births first, in the order in which they happened, then what was healed and what they spread to."""
    arrays = load_arrays(record.backend)
    states = States.of(record, arrays)
    sources = Sources.of(states.record)
    forward = Forward(states, sources, arrays)
    backward = Backward(forward)
    found = [*forward.births(backward.read, backward.folded()), *backward.births()]
    born = with_updates([finding for _, finding in sorted(found, key=itemgetter(0))], record)
    born = born or list(_untold(states))
    notes = [*forward.harmless(backward.read, backward.owners), *([] if states.was_asked else [LATE])]
    if not born:
        return Report(_clean(states), (), tuple(notes))
    places = _grouped(born)
    healed = _grouped(list(forward.healed(backward.read, backward.owners)))
    rest = [*healed, *_propagated(states, born), *spread(record, born)]
    return Report(_heading(places), (*places, *rest), tuple(notes))


def _grouped(found: Sequence[Finding]) -> list[Finding]:
    """Those of one kind at one line, as in the turns of a loop, told once with the first.

    What comes in where no line is known is one with what comes in as a later version of the same.
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
    return replace(first, facts=(*first.facts, f"so it is {len(others)} more time{'s' * (len(others) > 1)}: {names}"))


def _untold(states: States) -> Iterator[Finding]:
    """Nothing is called clean while an output or a gradient is not: here no place was found where that began."""
    entries, outputs = states.record.entries, states.record.outputs
    values = [(at, states.values[at], "the output") for at in outputs if states.values[at].is_bad]
    grads = [(at, state, "the gradient of") for at, state in enumerate(states.grads) if state.is_bad]
    for at, state, what in (values or grads)[:1]:
        headline = f"{what} {entries[at].name!r} holds {WORDS[state]}, and where that began is not told"
        yield Finding("unknown", entries[at].name, headline, entries[at].source, (), (), SEE_MORE)


def _clean(states: States) -> str:
    values = sum(e.finiteness is not None and e.finiteness.value is not None for e in states.record.entries)
    grads = sum(e.finiteness is not None and e.finiteness.grad is not None for e in states.record.entries)
    return f"no NaN or Inf comes to an output or a gradient: {values} values and {grads} gradients were judged"


def _heading(born: Sequence[Finding]) -> str:
    first = born[0]
    where = "" if first.source is None else f" ({place(first.source.file, first.source.line)})"
    return f"NaN or Inf begins at {len(born)} place{'s' * (len(born) > 1)}, first at {first.name!r}{where}"


def _propagated(states: States, born: Sequence[Finding]) -> list[Finding]:
    """What else holds NaN or Inf, as one finding."""
    entries, places = states.record.entries, {finding.name for finding in born}
    values = [e.name for e, state in zip(entries, states.values, strict=True) if state.is_bad and e.name not in places]
    grads = [e.name for e, state in zip(entries, states.grads, strict=True) if state.is_bad]
    if not values and not grads:
        return []
    outputs = [entries[at].name for at in states.record.outputs if states.values[at].is_bad]
    facts = tuple(
        f"{len(names)} {what}{'s' * (len(names) > 1)}: {', '.join(names[:MOST])}{' …' * (len(names) > MOST)}"
        for what, names in (("more value", values), ("gradient", grads)) if names
    )  # fmt: skip
    reached = f", and come to the output {', '.join(map(repr, outputs))}" if outputs else ""
    return [Finding("propagated", (values or grads)[0], f"NaN and Inf spread from there{reached}", None, facts)]
