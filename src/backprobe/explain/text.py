"""The texts of ``explain``, one for each code, and the function that makes findings of them.

Findings about NaN and Inf have texts of their own. If ``SENTENCES`` has both a code and the code with ``_next``, these
are the headline and the remedy of a cause.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from string import Formatter

from backprobe.cuts.operation_names import STEPS
from backprobe.explain.causes import CAUSES
from backprobe.explain.error_text import ERRORS
from backprobe.explain.framework_words import FrameworkWords
from backprobe.explain.instead import joined, value_at
from backprobe.findings.known import Known
from backprobe.findings.report import Finding
from backprobe.record import reasons
from backprobe.record.source import Source

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
    "unused.parameter_next": "use it in what the loss is computed from; or, if that is intended, {leave_it}",
    "unused.parameters": "nothing is computed from these parameters",
    "unused.parameters_next": "use them in what the loss is computed from; or, if that is intended, {leave_them}",
    "replaced.captured": "this line reads arrays from outside the function, and not from the argument {argument}, "
    "which has the same arrays",
    "replaced.captured_next": "compute it from {argument}: only arguments are differentiated, and all other arrays are "
    "constants",
    "dropped": "the result of {call} is not used",
    "dropped_next": "use it in what the loss is computed from",
    "unused.forward": "{name} is not mentioned in the forward() of {module}",
    "unused.forward_next": "use it there; or, if that is intended, freeze it with requires_grad_(False)",
    "unused.value": "{value} is computed, and nothing that was recorded leads from it to {outputs}",
    "unused.value_next": "use it in what the loss is computed from",
    "as_tried_next": "write that line as it was tried",
    "unknown.call": "no path leads from {outputs} back to {call}: its result is cut off later, or not used",
    "unknown.call_next": "give the result a name, out = {plain}, and ask again: then the line that cuts it off is "
    "known",
    "history_ends": "this line reads values with a gradient history, and what it makes has none",
    "history_ends_next": "compute it with operations of the framework, without numbers taken out of tensors",
    "unknown.parameters": "no path leads from {outputs} back to these parameters",
    "unknown.parameters_next": "use them in what the loss is computed from; or freeze them with {freeze}",
    "replaced.held": "the optimizer has parameters of no model that ran",
    "replaced.held_next": "make the optimizer after the last change of the model: it keeps the parameters it was given",
    "replaced.twins": "{optimizer} has the parameters of another model, which did not run: those of {model}, which "
    "ran, are in no optimizer",
    "replaced.twins_next": "give it the parameters of {model}; or run the model whose parameters it has",
    "replaced.twins_made": "{model} is made anew after {optimizer}, which keeps the parameters of the one before",
    "replaced.twins_made_next": "make the optimizer after this line, and it has the new parameters",
    "twins_of": "these run and get gradients, and no optimizer has them: {names}",
    "optimizer_made": "the optimizer is made before: {at}",
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
    "not_held_next": "give them to the optimizer, as with model.parameters(), if they are to be trained; "
    "requires_grad_(False) if not",
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
    # facts about values that are not used further
    "nothing_from_it": "no recorded value was seen to be computed from {value}",
    "called_at": "it ran in {text}, at {at}",
    "look": "print({names}) in front of that line",
    "look_whole": "print(rec) shows each value of one iteration, recorded by with bp.probe() as rec: around it",
    "ends_at": "what is computed from it ends there: {at}",
    "unseen_run": "calls of forward() itself, and calls inside what torch.compile made, are not seen here",
    "callers": "inputs and outputs of a module are recorded where its caller's locals are selected, as with ':*'",
    "shape_only": "only what says nothing of its value, as its shape or its .grad, is used of {names}",
    "from_frozen": "computed from {at}, which does not require a gradient",
    # facts about gradients that exist
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
    "useless.step_without_rate": "the lr of {optimizer} is 0",
    "useless.stale_copy": "a copy has old numbers",
    "useless.stale_copy.cast": "autocast's copies have old numbers",
    "useless.step_undone": "its steps are undone",
    "useless.update_unused": "what they were to become is used by nothing",
    "useless.step_scaled": "{optimizer} steps with scaled ones",
    "useless.step_without_gradient": "{optimizer} stepped without one",
    "useless.step_without_effect.added": "the updates of {names} change next to nothing",
    "cancelled": "0 but for rounding",
    "cancelled.zero": "exactly 0",
    "zero_once": "{gradients} is exactly 0 {when}, from {operation}{place} on",
    "zero_once.several": "{gradients} is exactly 0 {when}, from these operations on: {places}",
    "when": "in each iteration",
    "when.1": "in the one iteration that was looked at",
    "when.call": "at these arguments",
    "zero_everywhere": "{gradients} is 0 at all points that were tried",
    "zero_everywhere.exactly": "{gradients} is exactly 0",
    "zero_kept": "{gradients} is exactly 0 here; asked for by name, {first} shows where it becomes 0, as far as it was "
    "recorded",
    "zero_trained": "{gradients} is exactly 0 in what was recorded",
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
    "in_no_optimizer": "parameters that are in no optimizer so far: {names}",
    "later_unseen": "only what ran so far was looked at: what comes later may train them",
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
    "lost_derivative": "no gradient flows back along {at} to {names}: the gradients that it gives have no history of "
    "their own. If they should: {differentiably}",
    "lost_detached": "no gradient flows back along {at} to {names}: it is detached there",
    "sampled": "the derivative of {at} with respect to {names} is 0: {instead}",
    "lost_beside_more": "the same along {more} more lines",
    "assigned_between": "no gradient flows to earlier steps through assignments: {places}",
    "only_derivative": "only the derivative is used of: {names}",
    "not_used": "computed, and not used for an output: {names}",
    "combined": "{whole}{place} is computed from {own} and {others}, but only {own} leads to what was differentiated",
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
    "see_names": "{heading}: explain without nonfinite says why, or bp.explain(rec, name) of a recording",
    "graph_freed": "part of the graph of {loss} is freed: a second backward() or grad() through it raises",
    "no_lines": "the graph knows no lines: record with bp.probe, and bp.explain(rec, name) names the line",
    "python_nodes": "{own}: written in Python, and may give None for {name}; only running it shows",
}
"""The sentences of causes, errors, facts, headings and notes, by their codes."""

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
"""What to write instead of flat operations, by the name of the operation."""


def say(code: str, **fields: object) -> str:
    """The sentence of a code: a fact, a heading or a note."""
    return reasons.render(code, SENTENCES[code], fields)


def instead_of_flat(operation: str, framework: str) -> str:
    """The remedy for an operation with a flat derivative; empty for any other operation."""
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
    """Make the finding of a cause: its headline and remedy, filled in with these fields."""
    text, own = fields.get("text", "").strip("`"), fields.get("own", "")
    if code == "index":
        fields["at_position"] = fields.get("at_position") or value_at(text, framework)
        code = code if fields["at_position"] else "index.other"
    elif code == "copied" and (made := joined(text, own, framework)):
        fields["join"] = made
    argument = re.split(r"[.\[]", fields.get("plain", ""))[0]  # the argument that contains the value, for wrt=
    words = FrameworkWords(framework, {"argument": argument, **fields})
    headline, remedy = (reasons.render(each, SENTENCES[each], words) for each in (code, f"{code}_next"))
    why = next((each for each in (f"{code}_why", f"{code.partition('.')[0]}_why") if each in SENTENCES), "")
    facts = (*((reasons.render(why, SENTENCES[why], words),) if SENTENCES.get(why) else ()), *facts)
    # keep the field ``join`` too, because a trial of the remedy uses this expression
    kept = (*_fields(SENTENCES[code]), *(field for field in ("join",) if field in fields))
    named = {field: fields[field] for field in kept}
    return Finding(code.partition(".")[0], name, headline, source, tuple(facts), chain, remedy, named, known=known)


@cache
def _fields(sentence: str) -> tuple[str, ...]:
    # The names of the fields in a sentence.
    return tuple(name for _, name, _, _ in Formatter().parse(sentence) if name)
