"""Notes on TensorFlow's errors, in cases in which backprobe knows more than the error message says."""

from __future__ import annotations

from typing import Any

from backprobe.backends.facts import Failure

NO_GRADIENT, NONE_GIVEN = "no entry for", "No gradients provided for any variable"
GRAPHS_ALONE = "tf.gradients is not supported when eager execution is enabled"
COMPILED = {
    "keras": "backprobe: Keras compiles this step, and nothing in it was followed; "
    "model.compile(..., run_eagerly=True) shows the line that cuts the loss off",
    "the program": "backprobe: tf.function compiles this step, and nothing in it was followed; "
    "tf.config.run_functions_eagerly(True) shows the line that cuts the loss off",
}
"""The note on a training step that was compiled, by who compiled it."""
IN_GRAPH = (
    "backprobe: the graph was not followed; without minimize(), rec = bp.probe(loss, session=session)(feed) records "
    "it, and bp.explain(rec, name) says for a Variable of that name which operations cut it off, and where"
)


def explain(error: BaseException, tape: Any, captures: object) -> Failure | str | None:
    """Return the facts behind an error, or a note to add to it; None if there is nothing to add."""
    if isinstance(error, LookupError) and NO_GRADIENT in str(error):
        return (
            "backprobe: an operation on the way to the output has no derivative in TensorFlow; "
            "tf.stop_gradient on what goes into it leaves it out"
        )
    if isinstance(error, ValueError) and NONE_GIVEN in str(error):
        if tape.log.builds_graph:
            return IN_GRAPH
        return COMPILED.get(tape.compiled_by) or Failure("none_given")
    if isinstance(error, RuntimeError) and GRAPHS_ALONE in str(error) and tape.counts:
        return (
            "backprobe: scripts are explained under tf.config.run_functions_eagerly(True), and tf.gradients works in "
            "graphs alone: by itself the script may run; tf.GradientTape works in both"
        )
    return None
