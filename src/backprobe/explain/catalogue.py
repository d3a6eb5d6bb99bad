"""What each cause of a missing gradient is called, what is said of it, and what is usually written instead.

One table, for every framework. The fields in braces are filled in from what was recorded: ``value`` is the entry that
the gradient would go to, ``target`` what is computed from it, ``text`` and ``call`` parts of the line, ``reason`` what
the framework's adapter noted. The others are words of the framework (``words.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backprobe.cuts.usage import STEPS
from backprobe.explain.framework_words import FrameworkWords


@dataclass(frozen=True)
class Cause:
    """What is said of one cause, and the usual remedy with what it changes."""

    says: str
    remedy: str

    def headline(self, **fields: Any) -> str:
        return self.says.format_map(fields)

    def instead(self, framework: str, **fields: Any) -> str:
        return self.remedy.format_map(FrameworkWords(framework, fields))


CAUSES = {
    "detach": Cause(
        "{text} has the numbers of {value} and not its history: it cuts {target} off",
        "leave detach() out, and gradients flow from {target} to {value};\n"
        "keep it where that is meant, and ask for the gradient of another value",
    ),
    "stop_gradient": Cause(
        "{text} lets no gradient through: it cuts {target} off from {value}",
        "leave stop_gradient out, and gradients flow from {target} to {value}",
    ),
    "data": Cause(
        "{text} has the numbers of {value} and not its history: it cuts {target} off",
        "{value} itself, without .data, and gradients flow from {target} to it",
    ),
    "number": Cause(
        "{text} makes Python numbers of {value}, and these have no history",
        "{value} itself: {tensor} computes as a number does, and gradients flow through it",
    ),
    "numpy": Cause(
        "{text} takes {value} out of the framework: NumPy's arrays have no history",
        "the framework's own operation, on {value} itself",
    ),
    "copied": Cause(
        "{text} copies the numbers of {value} into a new tensor without a history",
        "{join}: all of these keep the history",
    ),
    "copied_unseen": Cause(
        "{text} copies the numbers of {value} into a new tensor without a history",
        "tensors in {plain} from its first line on, and no item() or numpy() there; then {join}",
    ),
    "parameter": Cause(
        "{text} makes a new leaf of the numbers of {value}: gradients end there",
        "compute with {value} itself; a parameter is made once, before everything that is computed from it",
    ),
    "assigned": Cause(
        "{text} writes the numbers of {value} into a Variable, and no gradient flows through an assignment",
        "compute with {value} itself; a Variable is for what is kept from step to step",
    ),
    "index": Cause(
        "{text} gives positions: they jump or stay as {value} changes, and have no derivative",
        "something smooth in its place (softmax weights instead of argmax),\n"
        "or take the value at that position, whose gradient flows: {at_position}",
    ),
    "comparison": Cause(
        "{text} is true or false: it jumps or stays as {value} changes, and has no derivative",
        "{where} or a product to select among values that are differentiated, or a smooth step such as sigmoid",
    ),
    "integer": Cause(
        "{text} makes whole numbers of {value}, which have no derivative",
        "keep a floating dtype: gradients flow through {floating}, not through integers",
    ),
    "not_float": Cause(
        "{target} is {dtype}: only floating point and complex values have derivatives",
        "keep a floating dtype between {value} and the output",
    ),
    "no_grad": Cause(
        "{target} is computed from {value} {mode}, where no history is kept",
        "compute {target} outside of it, and gradients flow to {value};\n"
        "a decorator on the function counts too, and a line before it that switched gradients off and never on again",
    ),
    "sample": Cause(
        "{text} draws numbers without a history: it cuts {target} off from {value}",
        "{draw_smoothly}: gradients flow through what is drawn; or a loss of log_prob()",
    ),
    "derivative": Cause(
        "{text} gives gradients without a history: it cuts {target} off from {value}",
        "{differentiably}, and gradients flow through what it gives",
    ),
    "differentiated": Cause(
        "{text} goes on from the derivative of {value} alone: {target} does not change with its numbers",
        "nothing is wrong where that is meant; use {value} itself as well, and gradients flow to it",
    ),
    "checkpoint": Cause(
        "{text} is given nothing that requires a gradient, and so keeps no history, that of parameters neither",
        "use_reentrant=False; or requires_grad_() on what it is given, before it",
    ),
    "inside": Cause(
        "{call} gives a value that does not lead back to {value}: it is cut off inside, or not used there",
        "look into what is called: bp.probe({function})(...) by itself records its lines",
    ),
    "inside_recorded": Cause(
        "{call} gives a value that does not lead back to {value}: it is cut off inside, or not used there",
        "the lines of {function} are recorded: give a name to what it gives back, out = ..., and ask again",
    ),
    "silent": Cause(
        "{target} has an edge to {value}, and backward brought nothing along it",
        "if a backward of your own is between them, it returned None for {value}: return the gradient;\n"
        "an operation without a derivative does the same",
    ),
    "limited": Cause(
        "{text} asks for the gradients of its inputs= alone, and no gradient comes to other values",
        "backward() without inputs=, or with {value} among them",
    ),
    "unknown": Cause(
        "{target} mentions {value}, and no history leads from it back: the line does not tell why",
        "give names to the parts of that line, u = ..., and ask again",
    ),
    "unused": Cause(
        "nothing that was recorded leads from {value} to {outputs}",
        "use {value} itself in what is computed, or ask for the value that is used;\n"
        "what goes through objects, closures and functions that are not followed is not seen: give it a name",
    ),
    "not_seen": Cause(
        "no way from {value} to {outputs} is recorded: it is not used there, or is cut off on the way",
        "bp.probe(model, ['**', '**:*']) records the lines of each forward: ask there",
    ),
    "not_selected": Cause(
        "nothing that was recorded leads from {value} to {outputs}, and not every name there was selected",
        "probe without a selection, or with the names that come after {value}: the line is known then",
    ),
    "made_again": Cause(
        "{again} computes {text} once more: that is another tensor, and {value} is not in the graph",
        "{value} itself in that line, and its gradient is there",
    ),
    "other_call": Cause(
        "{value} does not go into {outputs}: another value of the same name does",
        "the one that the output was computed from: {others}",
    ),
    "written_since": Cause(
        "{value} was written since, and nothing leads from what it was before to {outputs}",
        "a block of one step of training, or of= what that step computes",
    ),
    "frozen": Cause(
        "nothing recorded that {value} is computed from requires a gradient",
        "{require}",
    ),
    "frozen_leaf": Cause(
        "{value} requires no gradient, so none is computed",
        "{require_it}",
    ),
    "frozen_unseen": Cause(
        "{value} is computed by {text}, and nothing that goes into that requires a gradient",
        "{require_inside}",
    ),
    "made_leaf": Cause(
        "{value} was made to require a gradient when it was computed already: backward ends there at once",
        "leave requires_grad = True on results out: it hides the error and trains nothing; mend the cut instead",
    ),
    "not_tensor": Cause(
        "{value} is no tensor: {reason}", "the gradient of the tensor that it was made of, or that it went into"
    ),
    "not_executed": Cause(
        "{value} was never computed: {reason}", "call what computes it, or ask for a value that was computed"
    ),
    "module_not_run": Cause(
        "{value} is a parameter of {module}, and that module did not run",
        "call {module} where its result goes into the output; nothing is wrong where it is left out on purpose",
    ),
    "backward_not_run": Cause("no backward pass went by: {reason}", "{go_back}"),
    "overwritten": Cause(
        "{value} was written where autograd does not look: gradients that need it are those of the new numbers",
        "an ordinary operation, u = u * 2; a leaf may be written under torch.no_grad() before it is used",
    ),
    "outside_tape": Cause(
        "a tape gave None for {value}: {target} was computed while that tape did not record",
        "compute {target} inside of `with tf.GradientTape() as tape:`, and all that leads there from {value}",
    ),
    "not_watched": Cause(
        "a tape gave None for {value}, which it does not watch",
        "tape.watch({plain}) in the tape, before it is used: by itself a tape watches trainable Variables alone",
    ),
    "none_given": Cause(
        "a tape gave None for {value}: {reason}",
        "with bp.probe(of=...) as rec, of what was differentiated there, and bp.explain(rec, {value})",
    ),
    "opaque": Cause("the gradient of {value} cannot be told: {reason}", "{instead}"),
    "hooked": Cause(
        "a hook of the program's is on {value}, and its gradient is zero when that has run",
        "leave the register_hook() on {value} out, and ask again",
    ),
    "zero_derivative": Cause(
        "the derivative of {target} towards {value} that backward takes is 0",
        "{instead}",
    ),
}  # fmt: skip
"""By the word that a finding of this cause has as its ``kind``."""

FLAT = {
    "relu": "relu is 0 with derivative 0 where its input is negative: leaky_relu or gelu let gradients through",
    "clamp": "clamp has derivative 0 outside of its limits: wider limits, or a smooth one such as tanh",
    "clip": "clip has derivative 0 outside of its limits: wider limits, or a smooth one such as tanh",
    "hardtanh": "hardtanh has derivative 0 outside of its limits: tanh",
    **dict.fromkeys(
        STEPS,
        "{op} is flat between its steps: a straight-through estimator, {straight_through}",
    ),
    "normal": "normal draws numbers without a derivative: mean + deviation * {noise}",
    **dict.fromkeys(
        ("bernoulli", "poisson"), "{op} draws numbers without a derivative: a loss of log_prob(), or a relaxation"
    ),
}
"""What to write instead of operations that are flat, by the name of the operation."""


def instead_of_flat(operation: str, framework: str) -> str:
    """The remedy for an operation that is flat; empty for any other."""
    return FLAT.get(operation, "").format_map(FrameworkWords(framework, {"op": operation}))
