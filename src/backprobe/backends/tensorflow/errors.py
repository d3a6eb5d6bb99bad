"""Notes on TensorFlow's errors, where backprobe knows more than they say."""

from __future__ import annotations

NO_GRADIENT = "no entry for"


def explain(error: BaseException, *context: object) -> str | None:
    """A note for an error; None where there is nothing to add."""
    if isinstance(error, LookupError) and NO_GRADIENT in str(error):
        return (
            "backprobe: an operation on the way to the output has no derivative in TensorFlow; "
            "tf.stop_gradient on what goes into it leaves it out"
        )
    return None
