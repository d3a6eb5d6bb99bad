"""The words that reports about NaN and Inf share."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.explain.nonfinite.loops import Loop

LATE = (
    "recorded without nonfinite=True: what is held was judged now, and which operation of a line made a gradient NaN "
    "or Inf is not known"
)
SEE_MORE = "every name recorded, without a selection; in JAX and TensorFlow partials=True tells more of backward"
UPDATED = "gradients held NaN or Inf before that: what was updated with them may have brought it"
BEGUN = "it begins in step {} of the loop, counted from 0"
AGAIN = ", and again in {}, where what it is computed from is finite"
HELD = "the buffer {!r} held {} before the model ran"
NOTHING = "no output and no gradient holds NaN or Inf"
NO_TENSOR = "a number, and nothing that is seen to be computed with it holds NaN or Inf"
NOT_SEEN = "what else the module was given is not recorded"
BEFORE = (
    "{word} is in what backward() ran from: an operation between {between} and it made it, or something else that went "
    "in there brought it; no line in between is recorded"
)
SEE_BETWEEN = (
    "with bp.probe(nonfinite=True) as rec: around the same lines, each result bound to a variable: it records those"
)
NO_SCALE = "; under a GradScaler an overflow is expected now and then: it skips the step and lowers the scale"
LOWER_SCALE = (
    "a smaller scale, such as a lower init_scale of the GradScaler: gradients are divided by it before the step"
)
MASKED = "it lies in the branch {branch} of {where}, to which the unselected places give a zero gradient"
DOUBLE_WHERE = (
    "put a harmless number in before the operation, too: safe = where(condition, x, 1), then where(condition, f(safe), "
    "other); the values stay, and no zero meets an infinite derivative"
)
SEE_OPERATION = (
    "each operation of the line bound to a variable of its own; or, where it is no block, '**:*()' among what is "
    "selected: it tells which of them"
)
SEE_WHICH = "bp.probe(f, nonfinite=True, partials=True)(x), with these lines in a function f: it tells which of them"
BETWEEN = "an operation between them, a hook, or the sum of what arrives"
MOST_STEPS = 8
MOST_LISTED = 4  # names within a sentence


def some(names: Sequence[str]) -> str:
    """The first of some names, as text."""
    return ", ".join(map(repr, names[:MOST_LISTED])) or "what is recorded"


def scaled(scales: Sequence[float | None]) -> list[str]:
    """By how much a loss was multiplied before backward, where it was."""
    large = [scale for scale in scales if scale is None or abs(scale) > 1]
    by = "a number that is not known" if None in large else ", ".join(f"{scale:.6g}" for scale in large)
    return [f"the loss was multiplied by {by} before backward" + NO_SCALE] if large else []


def begun(loop: Loop, steps: Sequence[int]) -> str:
    """In which steps of a loop something begins, in the order in which they ran."""
    first, *others = map(loop.counted, steps)
    more = ", ".join(map(str, others[:MOST_STEPS])) + ", …" * (len(others) > MOST_STEPS)
    return BEGUN.format(first) + (AGAIN.format(more) if others else "")
