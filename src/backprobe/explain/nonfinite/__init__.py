"""Where NaN and Inf were born: one verdict over forward and backward, made of what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from backprobe.backends.choice import load_arrays
from backprobe.explain.nonfinite.backward import Backward
from backprobe.explain.nonfinite.forward import Forward
from backprobe.explain.nonfinite.sources import Sources
from backprobe.explain.nonfinite.states import States
from backprobe.findings import Finding, Report
from backprobe.names import COUNT
from backprobe.record import Record
from backprobe.show.table import place

LATE = (
    "recorded without nonfinite=True: what is held was judged now, and which operation of a line made a gradient NaN "
    "or Inf is not known"
)
MOST = 8  # names of a list


def explain_nonfinite(record: Record) -> Report:
    """The births first, in the order in which they happened, then what was healed and what they spread to."""
    arrays = load_arrays(record.backend)
    states = States.of(record, arrays)
    sources = Sources.of(states.record)
    forward = Forward(states, sources, arrays)
    backward = Backward(forward)
    found = [*forward.births(backward.read, backward.folded()), *backward.births()]
    born = [finding for _, finding in sorted(found, key=itemgetter(0))]
    notes = [*forward.harmless(backward.read, backward.owners), *([] if states.was_asked else [LATE])]
    if not born:
        return Report(_clean(states), (), tuple(notes))
    places = _grouped(born)
    rest = [*_grouped(list(forward.healed(backward.read, backward.owners))), *_propagated(states, born)]
    return Report(_heading(places), (*places, *rest), tuple(notes))


def _grouped(found: Sequence[Finding]) -> list[Finding]:
    """Those of one kind at one line, as in the turns of a loop, told once with the first."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for at, finding in enumerate(found):
        same = COUNT.sub("", finding.headline)
        key = (at,) if finding.source is None else (finding.kind, finding.source, same)
        groups.setdefault(key, []).append(finding)
    return [_first(group) for group in groups.values()]


def _first(group: Sequence[Finding]) -> Finding:
    first, *others = group
    if not others:
        return first
    names = ", ".join(other.name for other in others[:MOST]) + " …" * (len(others) > MOST)
    return replace(first, facts=(*first.facts, f"so it is {len(others)} more time{'s' * (len(others) > 1)}: {names}"))


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
