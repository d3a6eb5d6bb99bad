"""Notes on TensorFlow's errors, where backprobe knows more than they say."""

from __future__ import annotations

from typing import Any

from backprobe.backends.facts import Failure

NO_GRADIENT, NONE_GIVEN = "no entry for", "No gradients provided for any variable"


def explain(error: BaseException, tape: Any, captures: object) -> Failure | str | None:
    """What an error is about, or a note for it; None where there is nothing to add."""
    if isinstance(error, LookupError) and NO_GRADIENT in str(error):
        return (
            "backprobe: an operation on the way to the output has no derivative in TensorFlow; "
            "tf.stop_gradient on what goes into it leaves it out"
        )
    if isinstance(error, ValueError) and NONE_GIVEN in str(error):
        if tape.is_compiled_by_keras:
            return (
                "backprobe: Keras compiles this step, and nothing in it was followed; "
                "model.compile(..., run_eagerly=True) shows the line that cuts the loss off"
            )
        return Failure("none_given")
    return None
