"""The words of ``explain``: one sentence for each code, and the one place that makes findings of them.

Where ``SENTENCES`` has a code and the same with ``_next``, these are the headline of a finding and its remedy. The
kind of the finding is the code as far as a dot: ``inside.recorded`` is a special case of ``inside``. The fields in
braces come from the recording: ``value`` is the entry that the gradient would go to, ``target`` what is computed from
it, ``text`` and ``call`` parts of the line, ``reason`` what the framework's adapter reported. Other fields are words
of the framework (``framework_words.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from string import Formatter

from backprobe.cuts.operation_names import STEPS
from backprobe.explain.error_text import ERRORS
from backprobe.explain.framework_words import FrameworkWords
from backprobe.explain.instead import joined, value_at
from backprobe.findings.known import Known
from backprobe.findings.report import Finding
from backprobe.record import reasons
from backprobe.record.source import Source

INSIDE = "{call} returns a value that does not lead back to {value}: it is cut off inside, or not used there"
CAUSES = {
    "detach": "{text} cuts {target} off from {value}",
    "detach_why": "it copies the values and not the gradient history",
    "detach_next": "leave out detach(), and gradients flow from {target} to {value}",
    "stop_gradient": "{text} cuts {target} off from {value}",
    "stop_gradient_why": "it lets no gradient through",
    "stop_gradient_next": "leave out stop_gradient, and gradients flow from {target} to {value}",
    "data": "{text} cuts {target} off from {value}",
    "data_why": "it copies the values and not the gradient history",
    "data_next": "use {value} itself, without .data, and gradients flow from {target} to it",
    "number": "{text} turns {value} into Python numbers",
    "number_why": "Python numbers have no gradient history",
    "number_next": "use {value} itself: {tensor} works like a number, and gradients flow through it",
    "number.of": "{text} gives Python numbers, and {value} is in what it converts",
    "number.of_next": "use {converted} itself: a tensor needs no conversion, and gradients flow through it",
    "number.several": "{text} turns {value} into Python numbers",
    "number.several_next": "use {value} itself: operations on whole tensors take no numbers, gradients flow through",
    "number.list": "{text} turns {value} into a list of Python numbers",
    "number.list_next": "use {value} itself: operations on whole tensors need no list, and gradients flow through",
    "numpy": "{text} takes {value} out of the framework",
    "numpy_why": "NumPy arrays have no gradient history",
    "numpy.left_why": "",
    "numpy.function_why": "",
    "numpy.predict_why": "",
    "numpy_next": "use the framework's own operation on {value} itself",
    "numpy.left": "numbers computed from {value} are taken out of TensorFlow here, and NumPy arrays have no gradient "
    "history",
    "numpy.left_next": "use TensorFlow's own operations from here on to the loss",
    "numpy.function": "{text} runs a function that no tape sees: what it returns are numbers without gradient history",
    "numpy.function_next": "call the function itself, with TensorFlow's own operations in it, and gradients flow;\n"
    "or give it a derivative of its own with tf.custom_gradient",
    "numpy.predict": "numbers computed from {value} are taken out of TensorFlow here: predict() gives NumPy arrays, "
    "which have no gradient history",
    "numpy.predict_next": "call the model itself, model(x), and gradients flow",
    "copied": "{text} copies the values of {value} into a new tensor",
    "copied_why": "the new tensor has no gradient history",
    "copied_next": "write {join} instead, which keeps the history",
    "parameter": "{text} makes a new leaf from the values of {value}, so gradients stop there",
    "parameter_next": "compute with {value} itself; make a parameter once, before anything is computed from it",
    "replaced": "replace= put another value into the place of {target}, which was computed from {value}",
    "replaced_next": "a function of the value, replace={{{target}: lambda value: ...}}, is differentiated through",
    "replaced_values": "replace= put other values into the place of {names}",
    "assigned": "{text} writes the values of {value} into a Variable, and no gradient flows through an assignment",
    "assigned_next": "compute with {value} itself; use a Variable for what is kept from step to step",
    "index": "{text} gives positions, which have no derivative",
    "index_why": "they jump or stay the same as {value} changes",
    "index_next": "use something smooth instead (softmax weights instead of argmax),\n"
    "or take the value at that position, whose gradient flows: {at_position}",
    "index.other": "{text} gives positions, which have no derivative",
    "index.other_next": "use something smooth instead, as weights that change with the values (softmax for argmax)",
    "index.beside": "{target} holds positions, which have no derivative",
    "index.beside_next": "use the values that {call} gives beside them, whose gradient flows",
    "comparison": "{text} is true or false, which has no derivative",
    "comparison_why": "it jumps or stays the same as {value} changes",
    "comparison_next": "select among differentiated values with {where} or a product, or use a smooth step, sigmoid",
    "count": "{text} counts, and a count has no derivative",
    "count_why": "it jumps or stays the same as {value} changes",
    "count_next": "sum a smooth step instead of counting: the sum of sigmoid((u - limit) / width)",
    "integer": "{text} converts {value} to integers, which have no derivative",
    "integer_next": "keep a floating-point dtype: gradients flow through {floating}, not through integers",
    "not_float": "{target} has the dtype {dtype}: only floating-point and complex values have derivatives",
    "not_float_next": "keep a floating-point dtype between {value} and the output",
    "no_grad": "{target} is computed from {value} {mode}",
    "no_grad_why": "no gradient history is recorded there",
    "no_grad_next": "compute {target} outside that context, and gradients flow to {value};\n"
    "or find a decorator, or an earlier line, that switched gradients off and never on again",
    "no_grad.update": "{target} is computed from {value} {mode}",
    "no_grad.update_why": "the new tensor is not a leaf that requires a gradient",
    "no_grad.update_next": "change the leaf itself, in that place: {plain} -= ...;\n"
    "or make the new one a leaf: {plain} = (...).requires_grad_()",
    "sample": "{text} draws samples without gradient history, so {target} is disconnected from {value}",
    "sample_next": "use {draw_smoothly}: gradients flow through such samples; or use a loss of log_prob()",
    "sample.discrete": "{text} draws whole numbers: they have no derivative with respect to {value}",
    "sample.discrete_next": "use a loss of log_prob() of what was drawn; or a smooth sample, as of Gumbel-softmax",
    "derivative": "{text} gives gradients that have no history of their own, so {target} is disconnected from {value}",
    "derivative_next": "use {differentiably}, and gradients flow through its result",
    "differentiated": "{text} uses only the derivative of {value}: {target} does not depend on its value",
    "differentiated_next": "if this is not intentional, use {value} itself as well, and gradients flow to it",
    "checkpoint": "no input of {text} requires a gradient, so this checkpoint records nothing, parameters included",
    "checkpoint_next": "use_reentrant=False; or requires_grad_() on one of its inputs, before the call",
    "left_framework": "{target} changes with {value}, and holds plain numbers that no gradient leads back from",
    "left_framework_next": "compute {target} from {value} with the framework's own operations, and gradients flow",
    "discrete": "{target} changes with {value}, and is of dtype {dtype}, which has no derivative",
    "discrete_next": "keep a floating-point dtype between {value} and the output, and operations that have a slope",
    "same_numbers": "{target} has the numbers of {value} and not its history",
    "same_numbers_next": "use {value} itself in the place of {target}, and gradients flow to it",
    "new_numbers": "{target} changes with {value}, and no gradient leads back from it",
    "new_numbers_next": "compute {target} with operations that have a derivative;\n"
    "or give the function that computes it one of your own",
    "nothing_given": "{text} is given no tensor that requires a gradient, so autograd records nothing of it: it looks "
    "into no list and no object",
    "nothing_given_next": "give {value} to apply() itself, as in apply(*parts), and have forward(ctx, *parts) take it",
    "nothing_given.module": "{text} applies a function with a backward of its own, and autograd records nothing that "
    "runs in it",
    "nothing_given.module_next": "call the module outside of it; or give its parameters to apply() as well, and return "
    "a gradient for each",
    "inside": INSIDE,
    "inside_next": "look inside: bp.probe({function})(...) by itself records its lines",
    "inside.library": INSIDE,
    "inside.library_next": "{function} is in a library, whose lines are not recorded;\n"
    "its documentation says what is differentiated;\n"
    "or compute the same with operations that are",
    "inside.unseen": INSIDE,
    "inside.unseen_next": "no value of {function} can be seen inside of that transformation:\n"
    "look in its lines for what lets no gradient through, or compute the same without it",
    "inside.partial": INSIDE,
    "inside.partial_next": "{function} is a functools.partial of a function whose lines are not recorded: where that "
    "is a library's,\nits documentation says what is differentiated; or compute the same with "
    "operations that are",
    "inside.lambda": INSIDE,
    "inside.lambda_next": "look inside: select '/<lambda>:*' too, and the lines of the lambda are recorded",
    "inside.recorded": "{call} returns a value that does not lead back to {value}: it is cut off inside, or unused",
    "inside.recorded_next": "the lines of {function} are recorded: give its result a name, out = ..., and ask again",
    "inside.handed": "{call} returns a value that does not lead back to {value}: it is cut off inside, or unused",
    "inside.handed_next": "the lines of {function} are recorded, under /{function}: in the names of its values",
    "cut_in_of": "{function}, given as of=, was given a value with a history and returned one without",
    "cut_in_of_next": "look inside: bp.probe({function})(...) by itself records its lines; give a lambda a name for it",
    "silent": "the graph connects {target} to {value}, but backward sent no gradient along that edge",
    "silent_next": "if a custom backward lies between them, it returned None for {value}: return the gradient",
    "silent.custom": "{functions} returned None, so no gradient flows from {target} to {value}",
    "silent.custom_next": "return a gradient for each input of forward() that requires one",
    "silent.parameters": "{text} returned None in the place of a gradient",
    "silent.parameters_next": "return a gradient for each input of forward() that requires one",
    "none_behind": "a gradient came to {value}, and nothing of it to these parameters, which it is computed from",
    "none_behind_next": "give names to the parts of that line, u = ..., and ask again",
    "limited": "{text} computes gradients for its inputs= only, and for no other value",
    "limited_next": "call backward() without inputs=, or with {value} among them",
    "unknown": "{target} uses {value}, but the graph does not connect them; the line does not show why",
    "unknown_next": "give names to the parts of that line, u = ..., and ask again",
    "unknown.hook": "{target} uses {value}, but the graph does not connect them; that module has a hook on its forward",
    "unknown.hook_next": "return None from the hook, or a value that keeps its history: detach() only what is kept",
    "unused": "nothing that was recorded leads from {value} to {outputs}",
    "unused_next": "use {value} itself in the computation, or ask for the value that is used;\n"
    "in objects, closures and functions that are not followed, give it a name: uses are not seen there",
    "unused.passed": "{text} is given {last}, and nothing that was recorded leads on from there to {outputs}",
    "unused.passed_next": "compute {outputs} from {plain} itself: what that line makes of it is not used there, or has "
    "no history",
    "unused.held": "{text} uses '{plain}', and nothing that was recorded leads on from {last} in it to {outputs}",
    "unused.held_next": "compute {outputs} from {last} itself;\n"
    "where '{plain}' holds other values by then, give it a name of its own before that line",
    "unknown.callers": "no path from {value} to {outputs} was recorded: it is not used there, or is cut off on the way",
    "unknown.callers_next": "bp.probe(model, ['**', '**:*']) records the lines of each forward: ask there",
    "unknown.selection": "nothing that was recorded leads from {value} to {outputs}, and not every name was selected",
    "unknown.selection_next": "select the names after {value} as well, or all: then the line is known",
    "made_again": "{again} computes {text} a second time: that is another tensor, and {value} is not in the graph",
    "made_again_next": "use {value} itself in that line, and it gets its gradient",
    "other_call": "{value} does not go into {outputs}: another value of the same name does",
    "other_call_next": "ask for the one that the output was computed from: {others}",
    "written_since": "{value} was modified later, and nothing leads from its earlier version to {outputs}",
    "written_since_next": "record one step of training at a time, or give of= what this step computes",
    "frozen": "nothing recorded that {value} is computed from requires a gradient",
    "frozen_next": "{require}",
    "frozen_leaf": "{value} does not require a gradient, so none is computed",
    "frozen_leaf_next": "{require_it}",
    "frozen.call": "{value} is computed by {text}, and nothing that goes into that call requires a gradient",
    "frozen.call_next": "{require_inside}",
    "made_leaf": "{value} was made to require a gradient after it was computed, so backward ends there at once",
    "made_leaf_next": "leave out requires_grad = True on results: it hides the error; repair the cut instead",
    "not_tensor": "{value} is not a tensor: {reason}",
    "not_tensor_next": "ask for the gradient of the tensor that it was made from, or that it went into",
    "not_executed": "{value} was never computed: {reason}",
    "not_executed_next": "call what computes it, or ask for a value that was computed",
    "not_executed.module": "{value} is a parameter of {module}, and no call of that module was seen",
    "not_executed.module_next": "call {module} where its result goes into the output, if it is not left out on purpose",
    "not_taken": "all that was recorded of what is computed from {value} is in a branch that was not taken",
    "not_taken_next": "nothing, if the branch was left out on purpose: on such inputs its gradient is zero",
    "backward_not_run": "no backward pass reached {value}: {reason}",
    "backward_not_run_next": "{go_back}",
    "backward_not_run.model": "no backward pass reached {value}: {reason}",
    "backward_not_run.model_next": "{go_back};\nif it is called there, what it is called on has lost its history:\n"
    "a block without the model, with bp.probe() as rec:, records the lines up to it",
    "backward_not_run.block": "{reason}",
    "backward_not_run.block_next": "{instead}",
    "backward_not_run.raised": "the block was not differentiated: {reason}",
    "backward_not_run.raised_next": "the error has a note with what the recording knows of it",
    "backward_not_run.late": "{value} got its name only after backward() had run, so its gradient was not recorded",
    "backward_not_run.late_next": "give it a name before backward()",
    "zero_behind_stops": "the gradient of {value} is exactly 0: every path from it to the output goes through an "
    "operation that has no derivative or a derivative of 0: {operations}",
    "zero_behind_stops_next": "leave it out of what is differentiated; or use a smooth function there, as sigmoid "
    "for a step",
    "all_zero": "{gradients} exactly 0",
    "all_zero_next": "{look}: a factor that is 0, a flat operation or terms that cancel give 0",
    "zero_flat": "{operation} is flat there: {gradients} is exactly 0 {when}",
    "zero_flat_next": "{instead}",
    "zero_flat.constant": "{operation} gives the same whatever it is given: {gradients} is exactly 0",
    "zero_flat.constant_next": "print the shape of what {operation} is given:\n"
    "along a dimension of size 1 there is nothing to compare",
    "zero_times_zero": "{operation} multiplies by a 0 that is not trained: {gradients} is exactly 0 {when}",
    "zero_times_zero_next": "{look}: a mask, a weight or an input there is 0 everywhere",
    "zero_times_zero.named": "{factors} is 0 everywhere: {gradients}, multiplied by it, is exactly 0 {when}",
    "zero_times_zero.named_next": "look at where {factors} is computed, and print it",
    "cancels": "all ways from {names} into the loss cancel: the gradient is rounding alone",
    "cancels_next": "{look}:\n"
    "what is added and subtracted again cancels,\n"
    "and so does what is divided by its own sum over a dimension of size 1",
    "cancels.constant": "{operation} gives the same whatever it is given: {gradients} is rounding alone",
    "cancels.constant_next": "print the shape of what {operation} is given:\n"
    "along a dimension of size 1 there is nothing to compare",
    "outer_product": "{text} broadcasts {shapes} to {result}: each element is used with all others",
    "outer_product_next": "give both one shape first: {squeeze} where it ends in 1, or [..., None] of the other",
    "result_dropped": "the result of {call} is dropped: it makes a new value and changes none",
    "result_dropped_next": "give the result a name, and compute the loss from that; or leave the line out",
    "distribution_twice": "{applied} is applied to what softmax has made: probabilities that sum to 1 already",
    "distribution_twice_next": "give it the logits: leave out the first softmax",
    "not_log_probabilities": "a negative log-likelihood is taken of what are no log-probabilities: their exp does not "
    "sum to 1",
    "not_log_probabilities_next": "{normalise} first; or {of_logits}, which takes the logits",
    "not_log_probabilities.clipped": "the loss takes numbers for probabilities, and clips them: {share} % of them are "
    "outside [0, 1]",
    "not_log_probabilities.clipped_next": "{from_logits}, if these are logits; or a sigmoid or softmax before it",
    "step_without_effect": "steps of {optimizer} with lr {rate} leave the {dtype} parameters as they are: they change "
    "{share} % of the numbers that have a gradient",
    "step_without_effect_next": "a larger lr; or parameters in float32, {half}:\n"
    "a change below the rounding of a dtype is lost",
    "step_without_effect.added": "the updates of {names} are below the rounding of {dtype}: they change {share} % of "
    "the numbers that have a gradient",
    "step_without_effect.added_next": "larger steps; or numbers in a wider dtype, or nearer to 0:\n"
    "a change below the rounding of a dtype is lost",
    "overwritten": "{value} was modified outside autograd; gradients that need it use the new values",
    "overwritten_next": "use an ordinary operation, u = u * 2; under torch.no_grad(), modify a leaf before it is used",
    "outside_tape": "a tape gave None for {value}: {target} was computed while that tape did not record",
    "outside_tape_next": "inside `with tf.GradientTape() as tape:`, compute all that leads from {value} to {target}",
    "watched_late": "a tape gave None for {value}: {target} was computed from it before that tape watched it",
    "watched_late_next": "call tape.watch({plain}) in the tape before its first use",
    "watched_after": "a tape gave None for {value}: what was differentiated had been computed before that tape watched "
    "it",
    "watched_after_next": "call tape.watch({plain}) in the tape before its first use",
    "constant_target": "a tape gave None for {value}: no operation computed what was differentiated from a trainable "
    "Variable or a watched tensor; it is a constant, or its numbers came from outside of "
    "TensorFlow, as from NumPy",
    "constant_target_next": "compute it with TensorFlow's own operations alone; a plain block, with bp.probe() as rec: "
    "around this line, shows the lines that compute it",
    "not_watched": "a tape gave None for {value}, which it does not watch",
    "not_watched_next": "call tape.watch({plain}) in the tape before its use: a tape watches trainable Variables alone",
    "not_watched.variable": "a tape gave None for {value}, a Variable that it does not watch",
    "not_watched.variable_next": "trainable=True where it is made, or tape.watch({plain}) in the tape before its use",
    "not_float.asked": "{giver} gave None for {value}: its dtype is {dtype}, and only floating-point and complex "
    "values have derivatives",
    "not_float.asked_next": "make it with a floating-point dtype, tf.Variable([1.0, 2.0])",
    "asked_for_nothing": "{text} asks a tape for the gradients of nothing: the list that it is given is empty",
    "asked_for_nothing_next": "trainable_variables is empty where trainable is False, and before a model is built;\n"
    "set trainable = True, or call the model once before its variables are asked for",
    "operation_dtype": "{text} makes {dtype} values of {value}, and only floating-point and complex ones have "
    "derivatives",
    "operation_dtype.whole": "{text} makes {dtype} values of {value}, and only floating-point and complex ones have "
    "derivatives",
    "operation_dtype.whole_next": "a cast does not mend that: use a function of {value} that has a derivative instead",
    "operation_dtype_next": "keep a floating-point dtype: gradients flow through {floating}, not through integers;\n"
    "or, where an embedding takes integers, ask for the gradient of what it returns",
    "no_derivative": "{text} has no derivative in TensorFlow, so no gradient comes back to {value}",
    "no_derivative_next": "{instead}",
    "zero_derivative.operation": "{text} has a derivative of 0 everywhere, so the gradient of {value} is 0",
    "zero_derivative.operation_next": "{instead}",
    "own_gradient": "the gradient function of {text} returned None, so no gradient comes back to {value}",
    "own_gradient_next": "return a gradient for each input: what came in times the derivative,\n"
    "or what came in itself for a straight-through estimator",
    "own_gradient.zero": "the gradient function of {text} was given a gradient and returned zeros, so that of {value} "
    "is 0",
    "own_gradient.zero_next": "return what came in times the derivative, or what came in itself for a straight-through "
    "estimator",
    "own_gradient.inside": "a gradient came to what {text} returned, and zeros went on to what it was given, so that "
    "of {value} is 0",
    "own_gradient.inside_next": "call the function itself, with TensorFlow's own operations in it: gradients flow;\n"
    "or give it a derivative of its own with tf.custom_gradient",
    "graph_cut": "{value} goes into {outputs} through {operations} alone, and no gradient comes back through that",
    "graph_cut_next": "leave out stop_gradient there; in place of any other operation, use one that has a derivative",
    "graph_cut.by_hand": "{value} goes into {outputs}, and a gradient function on the way there gives none for it",
    "graph_cut.by_hand_next": "if that is a tf.custom_gradient, return a gradient for each of its inputs",
    "tape_stopped": "{text} uses {value} while the tape is stopped, so no gradient comes back",
    "tape_stopped_next": "compute it outside `with tape.stop_recording():`",
    "none_in_graph": "tf.gradients gave None for {value}: {target} is not computed from it",
    "none_in_graph_next": "use {plain} in what {target} is computed from, or leave it out of what tf.gradients is "
    "asked for",
    "none_held": "tf.gradients gave None for {value}: stop_gradients= holds something constant on every way from it to "
    "{target}",
    "none_held_next": "leave out of stop_gradients= what lies between {value} and {target}",
    "none_given": "{giver} gave None for {value}: {reason}",
    "none_given_next": "name what was differentiated, with bp.probe(of=...) as rec, and ask bp.explain(rec, {value})",
    "opaque": "the gradient of {value} cannot be captured: {reason}",
    "opaque_next": "record it where it can be seen: see the reason",
    "hooked": "a hook is on {value}, and its gradient is zero after the hook has run",
    "hooked_next": "leave out the register_hook() on {value}, and ask again",
    "added_up": "what comes back to {value} from {targets} adds up to exactly 0",
    "added_up_next": "bp.probe(..., partials=True) keeps each part, in rec[{first}].contributions",
    "added_up.parts": "what comes back to {value} from {targets} cancels to exactly 0",
    "added_up.parts_next": "if that is not intended, use {value} in one of them alone",
    "zero_derivative": "the derivative of {target} with respect to {value} that backward uses is 0",
    "zero_derivative_next": "{instead}",
}
"""The headline and the remedy of each cause, in every framework; the remedy with what it changes."""

SENTENCES = {
    **CAUSES,
    # causes of parameters without a gradient
    "no_grad.call": "{call} runs {mode}",
    "no_grad.call_next": "call it outside that context; if its parameters are to stay as they are, freeze them:\n"
    "requires_grad_(False) for that module, whose parameters are then no finding",
    "replaced.call": "the model ran with other tensors in the place of these parameters, as with "
    "torch.func.functional_call",
    "replaced.made": "the model ran with {value} in the place of its own parameters, and nothing leads back "
    "from it to them",
    "replaced.made_next": "make it of the parameters themselves, as dict(model.named_parameters()) holds them",
    "replaced.leaf": "the model ran with {value} in the place of its own parameters, and nothing leads back "
    "from it to them",
    "replaced.leaf_next": "give the optimizer that tensor, if it is to be trained;\n"
    "or make it of the parameters in each step: torch.stack([one.weight for one in all])",
    "replaced.call_next": "give the optimizer those tensors; or call the model itself, and its own parameters get "
    "gradients",
    "not_executed.untrained": "{module} ({kind}) was not called in what was recorded",
    "not_executed.untrained_next": "call it where its result goes into the loss;\n"
    "or leave it out of the model, or freeze it with {freeze}, if that is intended",
    "unused.parameter": "nothing is computed from {name}",
    "unused.parameter_next": "use it in what the loss is computed from; or, if that is intended, freeze it with "
    "{freeze}",
    "unused.parameters": "nothing is computed from these parameters",
    "unused.parameters_next": "use them in what the loss is computed from; or, if that is intended, freeze them with "
    "{freeze}",
    "dropped": "the result of {call} is not used",
    "dropped_next": "use it in what the loss is computed from",
    "unused.forward": "{name} is not mentioned in the forward() of {module}",
    "unused.forward_next": "use it there; or, if that is intended, freeze it with requires_grad_(False)",
    "unused.value": "{value} is computed, and nothing that was recorded leads from it to {outputs}",
    "unused.value_next": "use it in what the loss is computed from",
    "unknown.call": "no path leads from {outputs} back to {call}: its result is cut off later, or not used",
    "unknown.call_next": "give the result a name, out = {plain}, and ask again: then the line that cuts it off is "
    "known",
    "unknown.parameters": "no path leads from {outputs} back to these parameters",
    "unknown.parameters_next": "use them in what the loss is computed from; or freeze them with {freeze}",
    "replaced.held": "the optimizer has parameters of no model that ran",
    "replaced.held_next": "make the optimizer after the last change of the model: it keeps the parameters it was given",
    "cleared": "optimizer.step() found no gradient in {parameters}: they were cleared after backward()",
    "cleared_next": "call zero_grad() before backward() or after step(), and not between the two",
    "not_held.inside": "{place} is a plain {kind}: its parameters get gradients, but no optimizer has them",
    "frozen.all": "optimizer.step() ran, and no parameter that it has requires a gradient",
    "frozen.all_next": "requires_grad_(True) on what is to be trained, before the loss is computed",
    "not_held.inside_next": "{instead}, and model.parameters() has them",
    "not_held.tensor": "{place} is a plain tensor, not a parameter: it gets gradients, but no optimizer has it",
    "not_held.tensor_next": "{plain} = nn.Parameter(...), and model.parameters() has it",
    "not_held.computed": "{place} is computed once, where it is assigned, from a leaf that gets gradients and that "
    "no optimizer has",
    "not_held.computed_next": "{plain} = nn.Parameter(...) around all of that computation, and model.parameters() "
    "has it",
    "not_held": "{parameters} of the model that ran get gradients, and no optimizer has them",
    "not_held_next": "give them to the optimizer, as with model.parameters(), if they are to be trained",
    **ERRORS,
    # facts about a cut
    "states": "{value} is {state}, {target} is {other}",
    "cut_before": "{value} is already disconnected; this line would disconnect it again",
    "conditional": "this part of the line may not use the value: it is under a condition, or only an index or a shape",
    "backward_at": "its backward: {at}",
    "made_in": "its result is computed in {function}, {at}",
    "values_lost": "no gradient comes to {names}",
    "inside_module": "all of this is computed inside {module}: look at the line that calls it",
    "as_another": "the same line made {value}, which is cut off here; {limit}",
    "unnamed_output": "it goes into what backward() ran from: {at}",
    "not_selected_on": "the way on from {target} was not selected to its end",
    "hidden_to": "{value} is not recorded: nothing of its history passes this line",
    "hidden_of": "{value} appears in that line, and is this value unless something else has the same name there",
    "hooks": "what a hook on the forward of a module returns takes the place of what it was given: {at}",
    # facts about what leads nowhere
    "nothing_from_it": "no recorded value was seen to be computed from {value}",
    "called_at": "it ran in {text}, at {at}",
    "look": "print({names}) in front of that line",
    "look_whole": "print(rec) shows each value of one iteration, recorded by with bp.probe() as rec: around it",
    "ends_at": "what is computed from it ends there: {at}",
    "unseen_run": "calls of forward() itself, and calls inside what torch.compile made, are not seen here",
    "callers": "inputs and outputs of a module are recorded where its caller's locals are selected, as with ':*'",
    "shape_only": "only what says nothing of its value, as its shape or its .grad, is used of {names}",
    "from_frozen": "computed from {at}, which does not require a gradient",
    # facts about gradients that are there
    "own_rule": "the derivative of {function} is a rule of the program's own, {rule} ({at})",
    "see_rule": "look at what that rule returns: it is what backward uses, whatever the function computes",
    "zero_for": "the gradients of: {names}",
    "in_part": "it is in the layer '{part}', of the class {class}",
    "in_loss": "it is in the loss '{part}'",
    "useless": "{gradients} is useless",
    "useless.outer_product": "an operation has more elements than its operands",
    "useless.result_dropped": "the result of an operation is dropped",
    "useless.distribution_twice": "softmax is applied twice",
    "useless.not_log_probabilities": "the loss takes other numbers for log-probabilities",
    "useless.step_without_effect": "the steps of {optimizer} change next to nothing",
    "useless.step_without_effect.added": "the updates of {names} change next to nothing",
    "zero_once": "{gradients} is exactly 0 {when}, from {operation}{place} on",
    "zero_once.several": "{gradients} is exactly 0 {when}, from these operations on: {places}",
    "when": "in each iteration",
    "when.1": "in the one iteration that was looked at",
    "when.call": "at these arguments",
    "zero_everywhere": "{gradients} is 0 at all points that were tried",
    "zero_everywhere.exactly": "{gradients} is exactly 0",
    "zero_kept": "{gradients} is exactly 0 here; asked for by name, {first} shows where it becomes 0, as far as it was "
    "recorded",
    "zero_here": "{gradients}, all exactly 0 at these arguments",
    "zero_here.one": "{gradients}, exactly 0 at these arguments",
    "bridged": "with this line bridged, {gradients}",
    "bridged.several": "with this line and {lines} bridged, {gradients}",
    "used_last": "{value} was given to something last in {text}",
    "moved": "where other numbers go on in place of {value}, {target} changes; bridged, the gradient arrives",
    "flat_everywhere": "the gradient of {name} is 0 at {times} other points as well, and the output changes",
    "stays": "{target} stays the same at {times} other values of {value}: it may not be computed from it",
    "gradient_of": "the gradient of '{first}'",
    "gradients_of": "the gradient of '{first}' and {more} more",
    "not_flat": "use a smooth operation there, or keep what goes into it where it is not flat",
    "became_zero": "the gradient of {target} is not zero, that of {value} is zero everywhere",
    "value_is_zero": "{target} itself is zero everywhere: all of it is switched off for this input",
    "may_cancel": "their gradients are not zero: the parts cancel, or each is 0",
    "contribution": "from {target} comes {contribution}",
    "also_into": "{value} also goes into {others}: contributions may have cancelled",
    "cut_beside": "{text} in that line lets no gradient through",
    "without_cut": "let the gradient through {text}, if that is the part that counts here;\n{partials}",
    "see_partials": "bp.probe(..., partials=True) gives the derivative of each value with respect to each input",
    # facts about tapes
    "none_for": "{giver} gave None for {names}",
    "zeros_for": "a tape gave zeros for {names}",
    "asked_for": "asked for: {at}",
    "same_of": "the same of {names}",
    "own_tape": "the recorded gradient is that of the probe's own tape, which records the whole block",
    "no_way": "nothing that was recorded leads from it to what was differentiated there",
    "why_unknown": "the recording does not show why",
    # facts about a graph alone
    "loss_without": "{loss} is {described}, and has no grad_fn",
    "tensor_without": "{name} is {tensor}, and has no grad_fn",
    "loss_leaf": "it has no grad_fn, and requires a gradient by itself, as after requires_grad = True on a result",
    "saved_by": "saved by {savers}",
    "same_memory": "it shares its memory with {others}",
    "own_pass": "{checkpoints} runs a backward pass of its own",
    "other_operation": "another {again} of the same input is in the graph of {loss}, that of {name} is not",
    "made_of_other": "one was made from the other by detach(), .data or Parameter(), which cut the history",
    "computed_by": "{name} was computed by {operation} from {leaves}",
    "loss_leads_to": "{loss} leads back to {loss_leaves}",
    # headings
    "overview": "{there} of {all} values with a gradient",
    "overview.none": "no value was seen that could have a gradient",
    "lost": "{count} with a history but no gradient",
    "line_by_line": "where the program is run line by line: {counted}",
    "trained": "all {parameters} got a gradient",
    "cleared_of": "{lost} of {parameters} had no gradient when the optimizer stepped",
    "none_trained": "no parameter requires a gradient: {frozen} frozen (requires_grad=False)",
    "trained_one": "the only parameter got a gradient",
    "untrained": "{lost} of {parameters} got no gradient",
    "frozen_parameters": "{count} frozen (requires_grad=False)",
    "parameters_lost": "{count} parameters get no gradient ({names})",
    "parameter_lost": "{names} gets no gradient",
    "parameters_untrained": "parameters that are not trained: {names}",
    "switched_at": "switched off at {at}",
    "held_by": "these parameters are given to {optimizers}",
    "held_by.one": "the parameter is given to {optimizers}",
    "others_reached": "other parameters of {module} got a gradient",
    "missing": "{value} has no gradient ({status})",
    "missing_because": "{value} has no gradient ({status}): {reason}",
    "present": "{value} has its gradient: nothing is missing",
    "present_partly": "{value} has a gradient, but some of its uses do not contribute",
    "present_not_on_tape": "{value} has its gradient here, but a tape of the program's own gave None for it",
    "present_but": "{value} has its gradient, and there is something to know about it",
    "path_unseen": "no path is visible from {loss} to {name}, and part of the graph cannot be seen",
    "path_filled": "a path leads from {loss} to {name}: backward() gives it a gradient",
    "path": "a path leads from {loss} to {name}",
    "no_path": "no path leads from {loss} to {name}: backward() gives it no gradient",
    "of_all": "{value} has a gradient of every output: {outputs}",
    "of_some": "{value} has a gradient of {outputs}, and none of {others}",
    "of_none": "{value} has no gradient of any output: {others}",
    # notes
    "dropped_beside": "the result of {text} is not used ({at}), and no gradient comes to what it was given by that way",
    "constants": "used, but not trained, since it is not a parameter: {names}; nn.Parameter(...) in its place would be",
    "constants.several": "used, but not trained, since they are not parameters: {names}; nn.Parameter(...) in the "
    "place of one would be",
    "reached_by_all": "every output reaches: {names}",
    "reached_by_some": "{outputs}, but not {others}, reach: {names}",
    "reached_by_one": "{outputs} alone reaches: {names}",
    "about_outputs": "this is about {outputs}",
    "lost_beside": "no gradient flows back along {at} to {names}: intended?",
    "lost_detached": "no gradient flows back along {at} to {names}: it is detached there",
    "sampled": "the derivative of {at} with respect to {names} is 0: {instead}",
    "lost_beside_more": "the same along {more} more lines",
    "assigned_between": "no gradient flows to earlier steps through assignments: {places}",
    "only_derivative": "only the derivative is used of: {names}",
    "not_used": "computed, and not used for an output: {names}",
    "not_seen_used": "nothing recorded leads to an output from: {names}",
    "not_asked": "not among the values whose gradients the program asked for, nor on the way to these: {names}",
    "cut_in_graph": "cut off in the graph on every path to the output: {names}",
    "model_states": "held by the model beside its parameters, and not used for an output: {names}",
    "hidden_cut": "{parts} is not recorded: if it has a history, it is cut off ({kinds}) at {at}",
    "not_tensors": "not tensors: {names}",
    "no_floats": "neither floating-point nor complex: {names}",
    "never_computed": "never computed: {names}",
    "no_call_seen": "no call was seen of {names}",
    "aliases": "the same value is also called {names}",
    "own_grad": "it was computed, and is not a leaf: in PyTorch its own .grad is None, and rec[{value}].grad is there",
    "not_finite": "{count} of the {size} elements of the gradient are not finite",
    "see_names": "{heading}: bp.explain(rec, name) says why",
    "graph_freed": "part of the graph of {loss} is freed: a second backward() or grad() through it raises",
    "no_lines": "the graph knows no lines: record with bp.probe, and bp.explain(rec, name) names the line",
    "python_nodes": "{own}: written in Python, and may give None for {name}; only running it shows",
}
"""All of these, and facts, headings and notes by their codes."""

FLAT = {
    "relu": "relu is 0 with derivative 0 where its input is negative: leaky_relu or gelu let gradients through",
    **dict.fromkeys(("clamp", "clip", "hardtanh"), "{op} has derivative 0 outside its limits: use wider ones, or tanh"),
    **dict.fromkeys(STEPS, "{op} is flat between its steps: use a straight-through estimator, {straight_through}"),
    "floordiv": "u // v is flat between its steps: use u / v, or a straight-through estimator around it",
    "heaviside": "heaviside is flat on both sides of its step: use sigmoid(u / width), or a straight-through estimator "
    "around it",
    "normal": "normal draws samples without a derivative: use mean + deviation * {noise}",
    **dict.fromkeys(("bernoulli", "poisson"), "{op} has no derivative: use a loss of log_prob(), or a relaxation"),
}
"""What to write instead of operations that are flat, by the name of the operation."""


def say(code: str, **fields: object) -> str:
    """A fact, a heading or a note."""
    return reasons.render(code, SENTENCES[code], fields)


def instead_of_flat(operation: str, framework: str) -> str:
    """The remedy for an operation that is flat; empty for any other."""
    return FLAT.get(operation, "").format_map(FrameworkWords(framework, {"op": operation}))


def finding(
    code: str,
    name: str,
    source: Source | None,
    framework: str,
    /,
    *,
    facts: Sequence[str] = (),
    chain: tuple[str, ...] = (),
    known: Known = Known.NOTHING,
    **fields: str,
) -> Finding:
    """The finding of a cause: its headline and remedy filled in with these fields."""
    text, own = fields.get("text", "").strip("`"), fields.get("own", "")
    if code == "index":
        fields["at_position"] = fields.get("at_position") or value_at(text, framework)
        code = code if fields["at_position"] else "index.other"
    elif code == "copied" and (made := joined(text, own, framework)):
        fields["join"] = made
    argument = re.split(r"[.\[]", fields.get("plain", ""))[0]  # that holds the value, which wrt= takes
    words = FrameworkWords(framework, {"argument": argument, **fields})
    headline, remedy = (reasons.render(each, SENTENCES[each], words) for each in (code, f"{code}_next"))
    why = next((each for each in (f"{code}_why", f"{code.partition('.')[0]}_why") if each in SENTENCES), "")
    facts = (*((reasons.render(why, SENTENCES[why], words),) if SENTENCES.get(why) else ()), *facts)
    kept = (*_fields(SENTENCES[code]), *(field for field in ("join",) if field in fields))  # which is tried as it is
    named = {field: fields[field] for field in kept}
    return Finding(code.partition(".")[0], name, headline, source, tuple(facts), chain, remedy, named, known=known)


@cache
def _fields(sentence: str) -> tuple[str, ...]:
    # The fields that a sentence names.
    return tuple(name for _, name, _, _ in Formatter().parse(sentence) if name)
