"""The texts of guards."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from backprobe.backends.guards import Found, GuardedCall, GuardedGradient
from backprobe.findings.phrasing import listed, quoted
from backprobe.findings.report import Finding, Report
from backprobe.probe.request import name_of
from backprobe.record.reasons import Reason

WRITTEN = (
    "what wrote to {name} before this call, such as optimizer.step(); of a script, backprobe explain --nonfinite "
    "train.py names that line"
)
AFTER = "what lies between it and {backward}, such as the loss, brought it"


def call_of(call: GuardedCall) -> str:
    """Name a call in a sentence."""
    kind = name_of(call.module)
    return f"the call of {kind}" if not call.path else f"the call of {call.path!r} ({kind})"


def word(found: Found) -> str:
    """Return "NaN" if there is any, else "Inf"."""
    return "NaN" if any(count.nan for count in found.values()) else "Inf"


def outputs(found: Found) -> str:
    """List the outputs with their counts of NaN and Inf."""
    return "; ".join(f"{'its output' + path}: {count}" for path, count in found.items())


def in_forward(call: str, found: Found) -> str:
    return f"{word(found)} in what {call} returned"


def in_backward(call: GuardedCall, found: Found) -> str:
    names = quoted(list(found), 4)
    return f"{word(found)}{f' in the gradient of {names}' if names else ''} after {call.backward}"


def after_backward(found: Found, backward: str, is_begun: bool) -> str:
    return f"{word(found)} in what {backward} ran from" if is_begun else f"{word(found)} in gradients after {backward}"


def in_gradient(asked: GuardedGradient, found: Found, is_value: bool) -> str:
    if is_value:
        return f"{word(found)} in the value that {asked.asked} differentiates"
    return f"{word(found)} in the gradient of {quoted(list(found), 4)} that {asked.asked} returned"


def in_block(report: Report) -> str:
    return f"NaN or Inf in a block: {report.findings[0].headline}"


def unseen(names: Iterable[str], instead: str) -> str:
    """The warning about compiled functions, which a guard does not see."""
    return f"bp.guard() saw no gradient: {listed([*names])} ran compiled, and is not looked at. {instead} lets it be."


def unheard(others: Sequence[str], guarded: str) -> str:
    """The warning about frameworks that the block used, but the guard did not observe."""
    computed = listed(others)
    return (
        f"bp.guard() listened to {guarded}, and what the block holds is of {computed}: nothing of that was looked at. "
        f"Import {computed} in this file, or in the function that the block stands in, before the block begins."
    )


def came_in(call: GuardedCall, came: Found) -> Report:
    """The report if the gradient that reached an output already contained NaN or Inf."""
    asked, after = call_of(call), AFTER.format(backward=call.backward)
    names = ", ".join(f"':return{path}'" for path in came)
    facts = tuple(f"the gradient of ':return{path}': {count}" for path, count in came.items())
    headline = f"{word(came)} comes in with the gradient that reached {names}, what {asked} returned: {after}"
    first = Finding("came_in_backward", f":return{next(iter(came))}", headline, None, facts, (), call.see_loss)
    return Report(f"NaN or Inf begins after {asked}", (first,))


def unexplained_call(call: GuardedCall, found: Found, why: Reason) -> Report:
    """The report on a call that returned NaN or Inf for an unknown reason."""
    asked = call_of(call)
    facts = [f"':return{path}': {count}" for path, count in found.items()]
    what = f"{word(found)} comes out of {asked}"
    return _unknown(asked, call.see_lines, f":return{next(iter(found))}", what, why, facts)


def unexplained_pass(call: GuardedCall, found: Found, why: Reason) -> Report:
    """The report on a backward pass that left NaN or Inf for an unknown reason."""
    asked = call_of(call)
    facts = [f"the gradient of {name!r}: {count}" for name, count in list(found.items())[:4]]
    what = f"{word(found)} comes from the backward of {asked}, or from elsewhere"
    return _unknown(asked, call.see_lines, next(iter(found)), what, why, facts)


def unexplained_gradient(asked: GuardedGradient, found: Found, is_value: bool, why: Reason) -> Report:
    """The report on a gradient that is NaN or Inf for an unknown reason."""
    named = [("the value" if is_value else f"the gradient of {name!r}", count) for name, count in found.items()]
    facts = [f"{name}: {count}" for name, count in named[:4]]
    what = f"{word(found)} is in {'the value' if is_value else 'a gradient'} of {asked.asked}"
    return _unknown(asked.asked, asked.see_lines, next(iter(found)) or "return", what, why, facts)


def _unknown(call: str, next: str, name: str, what: str, why: Reason, facts: Sequence[str]) -> Report:
    headline = f"{what}; where it began is not known: {why}"
    finding = Finding("unknown", name, headline, None, tuple(facts), (), next)
    return Report(f"NaN or Inf, and where it began in {call} is not known", (finding,))


def captured(path: object, left_out: Sequence[str], needed: Sequence[str], function: str = "") -> str:
    """Return the sentence about a captured step and what it lacks.

    For a captured gradient, ``function`` is the name of its function.
    """
    without = f"; left out: {'; '.join(left_out)}" if left_out else ""
    if needed and not function:
        return f"The step is in {path}, and cannot be run again{without}"
    # a model of Equinox or Flax is not stored, and has to be created again
    models = " --model model.py:make_model" if needed else ""
    command = f"backprobe replay {shlex.quote(str(path))} model.py:{function or 'make_model'}{models}"
    return f"The step is in {path}{without}. Run it again: {command}"


def not_captured(path: object, failure: Exception, is_full: bool) -> str:
    """The warning that a step could not be written."""
    why = "no room on the disk" if is_full else f"{type(failure).__name__}: {failure}"
    return f"bp.guard could not write the step to {path}: {why}. Nothing of it is there."
