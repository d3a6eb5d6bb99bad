"""Causes that ``explain`` knows: the headline by code, and under ``<code>_next`` the remedy.

Some codes also have a reason under ``<code>_why``. The kind of a finding is its code up to the first dot:
``inside.recorded`` is a special case of ``inside``. The fields in braces come from the finding: usually, ``value`` is
the entry whose gradient is missing, ``target`` is the value computed from it, ``text`` and ``call`` are parts of the
line, and ``reason`` is the reason that the backend gives. A field that the finding does not give is a word of the
framework (``framework_words.py``).
"""

from __future__ import annotations

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
    "inside.builtin": INSIDE,
    "inside.builtin_next": "what runs there, {function}, has no lines to look into: leave it out;\n"
    "or compute the same with operations that have a derivative",
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
    "zero_not_sent": "{operation} sends exactly 0 to {names}, whatever comes to it",
    "zero_not_sent_next": "{look}: its indices, as those of padding_idx, choose nothing that is trained",
    "zero_hooked": "a hook on the way to {names} returns 0: {gradients} is exactly 0 {when}",
    "zero_hooked_next": "look at what that hook returns; or leave it out",
    "stale_copy": "what {text} made is used again after a change of what it was made of, and has the old numbers: "
    "{names}",
    "stale_copy_next": "compute it anew in each iteration, behind the step",
    "stale_copy.cast": "autocast still uses the copies that it made before the step, so the forward has old "
    "numbers: {names}",
    "stale_copy.cast_next": "enter torch.autocast anew for each forward, inside the loop:\n"
    "it keeps its copies until the outermost block ends; or torch.clear_autocast_cache() behind each step",
    "step_undone": "{text} gives back the numbers of before each step, which nothing has read: {names}",
    "step_undone_next": "run that line once, in front of the loop; or give it the numbers that are trained",
    "update_unused": "what {text} computes is used by nothing, and the parameters keep their numbers: {names}",
    "update_unused_next": "write into the parameter, under torch.no_grad(): `-= ...` in place of `= ... - ...`;\n"
    "`=` gives the name to a new tensor",
    "step_without_rate": "{optimizer} has stepped {steps} times, each time with lr 0: nothing changes",
    "step_without_rate_next": "print(optimizer.param_groups[0]['lr']) behind scheduler.step(), and look at its formula",
    "cancels": "all ways from {names} into the loss cancel: the gradient is {left}",
    "cancels_next": "{look}:\n"
    "what is added and subtracted again cancels,\n"
    "and so does what is divided by its own sum over a dimension of size 1",
    "cancels.constant": "{operation} gives the same whatever it is given: {gradients} is {left}",
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
    "step_without_gradient": "{optimizer} has stepped {steps} times, and each time the gradients of all its parameters "
    "were None or 0",
    "step_without_gradient_next": "zero_grad(), backward() and step(), in this order",
    "step_scaled": "{optimizer} steps with gradients that are {scale} times those of the loss: nothing has unscaled "
    "them",
    "step_scaled_next": "scaler.step(optimizer) and scaler.update(), in place of optimizer.step()",
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
    "not_watched.rebound": "{text} makes a tensor of the Variable {value}, and a tape watches Variables alone: it gave "
    "None from then on",
    "not_watched.rebound_next": "{plain}.assign({target}), which changes the Variable and keeps it",
    "not_watched.variable": "a tape gave None for {value}, a Variable that it does not watch",
    "not_watched.variable_next": "tape.watch({plain}) in the tape before its use; or leave out "
    "watch_accessed_variables=False",
    "not_watched.not_trainable": "a tape gave None for {value}: it has trainable=False, and a tape watches trainable "
    "Variables alone",
    "not_watched.not_trainable_next": "trainable=True where it is made, if it should be trained; else leave it out of "
    "what the tape is asked for: a model has trainable_variables beside variables",
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
"""The headlines, reasons and remedies of causes, by code, for every framework."""
