"""The words that reports about NaN and Inf share."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.explain.nonfinite.loops import Loop

LATE = (
    "recorded without nonfinite=True: the kept values were checked now, and the operations that made gradients NaN or "
    "Inf are not known"
)
SEE_MORE = "record every name, without a selection; in JAX and TensorFlow, partials=True shows more of backward"
UPDATED = "gradients held NaN or Inf before that: parameters updated with them may have brought it in"
BEGUN = "it begins in step {} of the loop, counted from 0"
AGAIN = ", and again in {}, where its inputs are finite"
HELD = "the buffer {!r} held {} before the model ran"
NOTHING = "no output and no gradient holds NaN or Inf"
NO_TENSOR = "it is a plain number, and nothing seen to use it holds NaN or Inf"
NOT_SEEN = "the module's other inputs are not recorded"
BEFORE = (
    "backward() ran on a value that holds {word}: it arose between {between} and that value, or came in with something "
    "else; no line in between is recorded"
)
SEE_BETWEEN = (
    "with bp.probe(nonfinite=True) as rec: around the same lines, with each result bound to a variable, to record them"
)
NO_SCALE = "; under a GradScaler an overflow is expected now and then: it skips the step and lowers the scale"
LOWER_SCALE = (
    "a smaller scale, such as a lower init_scale of the GradScaler: gradients are divided by it before the step"
)
MASKED = "it lies in the branch {branch} of {where}, where unselected elements receive a zero gradient"
DOUBLE_WHERE = (
    "substitute a harmless number before the operation, too: safe = where(condition, x, 1), then "
    "where(condition, f(safe), other); the values stay the same, and no zero gradient meets an infinite derivative"
)
SEE_OPERATION = (
    "bind each operation of the line to a variable of its own; or, outside a block, select '**:*()' too, to see which "
    "one it was"
)
SEE_WHICH = "bp.probe(f, nonfinite=True, partials=True)(x), with these lines in a function f, to see which one it was"
BETWEEN = "an operation between them, a hook, or the sum of the incoming gradients"
MOST_STEPS = 8
MOST_LISTED = 4  # names within a sentence


def some(names: Sequence[str]) -> str:
    """The first of some names, as text."""
    return ", ".join(map(repr, names[:MOST_LISTED])) or "what is recorded"


def scaled(scales: Sequence[float | None]) -> list[str]:
    """By how much a loss was multiplied before backward, where it was."""
    large = [scale for scale in scales if scale is None or abs(scale) > 1]
    by = "an unknown number" if None in large else ", ".join(f"{scale:.6g}" for scale in large)
    return [f"the loss was multiplied by {by} before backward" + NO_SCALE] if large else []


def begun(loop: Loop, steps: Sequence[int]) -> str:
    """In which steps of a loop something begins, in the order in which they ran."""
    first, *others = map(loop.counted, steps)
    more = ", ".join(map(str, others[:MOST_STEPS])) + ", …" * (len(others) > MOST_STEPS)
    return BEGUN.format(first) + (AGAIN.format(more) if others else "")
