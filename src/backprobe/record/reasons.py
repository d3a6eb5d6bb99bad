"""Reasons as codes with fields: the sentence of each code, and the one function that renders it.

Backends, the tracer and storage pass codes on; analyses compare codes; people read the sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


def render(code: str, sentence: str, fields: Mapping[str, object]) -> str:
    """The sentence of a code with its fields filled in. All sentences about a recording are rendered here."""
    return sentence.format_map(fields)


@dataclass(frozen=True)
class Reason:
    """A code, and the texts for the fields in its sentence.

    >>> reason = Reason("dtype", {"dtype": "int64"})
    >>> reason.code, reason.fields["dtype"], str(reason)
    ('dtype', 'int64', 'its dtype is int64')
    """

    code: str
    fields: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return render(self.code, SENTENCES[self.code], self.fields)


@dataclass(frozen=True)
class Note(Reason):
    """A remark about a recording; ``about`` is the printed name of the entry that it concerns, if any.

    >>> str(Note("steps", {"computed": "2", "of": "3"}, about="u"))
    'u: it was computed in 2 of 3 steps; in the others it is 0 here'
    """

    about: str = ""

    def __str__(self) -> str:
        return f"{self.about}: {super().__str__()}" if self.about else super().__str__()


WRITTEN_SINCE = frozenset({"written_since", "written_since_past_autograd"})
"""Codes for an older version of a value that was written to. The output does not depend on this version, but perhaps on
a newer one.
"""

LIMITED = frozenset({"no_path_to_inputs", "beside_inputs"})
"""Codes for a value outside of the paths to which a differentiating call was limited. The line of this call
is the cause.
"""

CUT_IN_GRAPH = frozenset({"no_derivative", "custom_gradient"})
"""Codes for a value from which the graph computes the output, but which gets no gradient. The value's line may not show
why.
"""

SENTENCES = {
    # Sentences for every framework.
    "not_tensor": "it is {kind}",
    "side_effect": "{name} was not run again to look for useless gradients: it {effect}",
    "written_before_again": "the arguments were written to since, so the program was not run again to look for useless "
    "gradients",
    "not_opened": "it is {kind}, which is not opened: tensors have names in tuples, lists, mappings and dataclasses",
    "no_attention_weights": "it is None: this attention returns no weights; fused kernels (SDPA, flash) have none to "
    "return, and eager attention has: attn_implementation='eager' in transformers, "
    "need_weights=True in nn.MultiheadAttention",
    "dtype": "its dtype is {dtype}",
    "frozen": "nothing recorded that it was computed from requires a gradient",
    "shape_only": "not computed from the values of what is differentiated, only from a shape, a .grad or the like",
    "cut_unrecorded": "{text} lets no gradient through, and what that is computed from is not recorded",
    "from_cut_unrecorded": "it was computed from {value}, whose line lets no gradient through",
    "no_history": "it was computed from differentiated values, but has no gradient history",
    "inherited": "it was computed from a value that is itself {status}",
    "no_path": "no path leads from it to the output",
    # Sentences about derivatives that the program took, and values computed from these.
    "no_path_of_gradient": "no path leads from it to the output",
    "state_no_path": "no path leads from it to the output; it is {kind} and not a parameter",
    "written_since": "no path leads from it to the output; it was modified later",
    "module_not_run": "no call of it was seen",
    "used_directly": "no call of it was seen, and its parameters have gradients: its forward() or its parameters "
    "were used directly, or compiled code called it",
    "line_not_run": "no line that binds it was seen to run",
    "no_tensor_bound": "no tensor was seen in what the lines that ran bound it to",
    "in_compiled": "it did not run, or it ran inside {functions}, which is compiled",
    # Sentences for PyTorch.
    "frozen_no_grad": "nothing recorded that it was computed from requires a gradient, and it ran under {mode}",
    "no_grad": "it was computed under {mode} from differentiated values",
    "reentrant_checkpoint": "its reentrant checkpoint records nothing, as no input of it requires a gradient",
    "nothing_given": "the function that computed it was given no tensor that requires a gradient",
    "view_of_frozen": "it is a view that was made under no_grad, or before its base required a gradient",
    "view_of_other_dtype": "it is a view with another dtype than its base, and was modified in place",
    "view_written_unseen": "it is a view whose memory was modified by a call that backprobe cannot see into",
    "func_transform": "it exists only inside a torch.func transform",
    "script_module": "it runs inside a ScriptModule, whose code is TorchScript, not Python",
    "versions_share_gradient": "it was modified in place outside autograd (under no_grad, through detach, or another "
    "tensor of its memory): what was computed before and after has one gradient",
    "written_within_function": "it was written inside a function with its own backward, and has a history only after "
    "that",
    "written_past_autograd": "it was modified through .data, NumPy or a fused optimizer, which autograd cannot see",
    "written_past_unsaved": "it was modified through .data, NumPy or a fused optimizer, which autograd cannot see; no "
    "operation is seen to have saved it for backward",
    "partly_updated": "it was modified through .data, NumPy or a fused optimizer; part of its gradient comes from uses "
    "of its new values",
    "written_since_past_autograd": "no path leads from it to the output; it was modified later through .data, NumPy or "
    "a fused optimizer",
    "data_replaced": "its .data was replaced by another tensor's, which autograd cannot see",
    "not_recomputed": "it was computed inside a reentrant checkpoint, and was not seen again when that was recomputed",
    "requires_grad_late": "it required a gradient only after it got its name, and was not seen again before backward()",
    "named_late": "it got its name only after backward() had run, so its gradient was not recorded",
    "several_roots": "backward() was called on several tensors at once, and this one has no name",
    "grad_held_before": "its .grad was not empty before the block, and backprobe cannot separate what this backward() "
    "added: select a module's output as well",
    "gradient_overwritten": "a backward or a hook of the program modified its gradient after it had arrived",
    "gradients_lie_apart": "several gradients came to it, as DTensors of different placements or parts of a maximum: "
    "to add them up, the processes would have to wait for each other",
    "hooks_taken_off": "PyTorch took the hooks off it when a backward written in Python read it among what a "
    "checkpoint or other hooks had saved, so its gradient was not heard",
    "returned_none": "every path from it to the output goes through {functions}, which returned None",
    "no_path_to_inputs": "no path leads from it to the output, or none to the inputs of backward(inputs=...)",
    "first_gradients": "these are of the first iteration of the script that takes gradients; it was stopped in the "
    "second",
    "outputs_not_kept": "autograd.grad(...) took gradients of many outputs: those of {count} calls after the first "
    "{most} outputs are not kept",
    "is_gradient": "it is a gradient from autograd.grad(...) without create_graph=True",
    "beside_inputs": "autograd.grad(...) goes to its inputs alone, and not by it",
    "grads_batched": "its gradients are of {count} cotangents at once (is_grads_batched=True): their first axis counts "
    "these",
    "grads_batched_of_view": "it is a view that was written in place, or was written through one, and its gradients "
    "are of many cotangents at once",
    "backward_not_called": "backward() was not called during the recording, or reached no recorded value",
    "backward_in_other_thread": "backward() was called by another thread than the one that opened the block",
    "backward_cut_short": "a backward() raised, or is still running, and has not reached it",
    "backward_unfinished": "backward did not finish",
    # Reasons why a guard does not repeat a call.
    "processes_wait": "several processes work together, and would wait for each other",
    "call_compiled": "it runs compiled",
    "parameters_written": "parameters were written since",
    "arguments_written": "its arguments were modified in place since",
    "call_traced": "JAX traced it, and what it was given has no numbers",
    "called_within": "it was called inside another layer, whose training mode it had",
    "variables_made": "it made Variables as it ran, and what they began with is not known",
    "draws_on": "it draws random numbers with {operation}, which draws others each time",
    "repeat_raised": "made again, it raised {error}",
    "repeat_takes": "made again, it took what came next from {kind}",
    "repeat_finite": "made again, it brought no NaN or Inf",
    # Sentences for TensorFlow.
    "not_trainable": "it is a Variable with trainable=False",
    "recomputed": "it ran in a checkpoint (tf.recompute_grad, keras.RematScope), which runs it again to differentiate",
    "tape_stopped": "it was computed from differentiated values while their tape was stopped",
    "variable_read_unseen": "the Variable was modified, and compiled code or a gather read it: what was read before "
    "and after the write has one gradient together",
    "assigned": "it was written into a Variable, and no gradient flows through an assignment",
    "block_not_over": "the block has not ended",
    "block_raised": "the block was left by {error}",
    "block_forked": "the block was left by a forked process, which cannot differentiate it",
    # Sentences for TensorFlow's graphs.
    "not_needed": "nothing on the way to the output needs it, so the run does not compute it",
    "output_without": "the output is not computed from it",
    "stop_gradient": "it was computed from differentiated values, and tf.stop_gradient lets no gradient through",
    "inputs_detached": "it was computed from differentiated values, and these are themselves detached",
    "in_graph": "it belongs to a graph, and no session has run its gradients in the block",
    "not_fetched": "the session did not compute it, or it got its name only after the session had run",
    "not_run_again": "{operation} comes before it, and gives something else or writes each time: so it was not "
    "computed a second time, and the program itself did not fetch it",
    "beside_sources": "tf.gradients(...) was asked for other values, and did not come by this one on the way to them",
    "through_other_dtype": "it was computed from differentiated values, but through a dtype that has no derivative",
    "custom_gradient": "a custom gradient on the way to the output leaves it out",
    "no_derivative": "every path from it to the output goes through {operations}, and no gradient does",
    "in_loop_or_branch": "{name} is inside a loop or a branch of the graph, where TensorFlow gives it no value of its "
    "own; what goes in and what comes out have names",
    "written_in_run": "{operation} may write to it during this run: each of its reads is a value of its own",
    # Sentences for JAX.
    "unseen_transform": "it is computed inside a transformation that backprobe cannot see into",
    "branch_not_taken": "the branch that computes it was not taken",
    "while_loop": "it is computed in a loop whose number of iterations is not known beforehand: no reverse mode",
    "custom_rule": "it is computed inside a function with a derivative rule of its own",
    "primitive_not_entered": "it is computed inside JAX's {primitive}, which backprobe does not enter",
    # Reasons why values are lost.
    "original_unseen": "it was computed inside a function that JAX traces, and has no value outside of it",
    "memory_freed": "its memory was freed",
    "data_reshaped": "its data was replaced by another tensor's of another shape or dtype",
    "overwritten_since": "it was modified in place after the recording was over",
    "overwritten_unseen": "it was modified in place by a call that backprobe cannot see into",
    "term_lost": "an output that it is the sum of is lost",
    # Notes about a recording.
    "not_followed": "{name} was not followed: {why}",
    "block_not_read": "the variables of {name} were not recorded: {why}",
    "already_probed": "{name} was not followed: it is already being probed",
    "compiled_not_followed": "{name} was not followed: it is compiled, and runs as a whole",
    "hidden_in_object": "{name} was not followed: it is hidden in an object of type {kind}",
    "hidden_in_function": "{name} was not followed: {function} of a library calls it",
    "handed_on": "{to} is given {names}, and was not followed: what is computed there has no names",
    "own_rule": "{name} was not followed: its derivative is a rule of the program's own, {rule} ({at})",
    "locals_unseen": "the locals of {name} cannot be seen: {why}",
    "binding_unseen": "{name} (line {line}) cannot be seen in a block: give it a name",
    "pipeline_divides": "the pipeline schedule divided .grad by {number} after backward(): the entry of a parameter is "
    "{number} × what was added to its .grad",
    "pipeline_infers": "the pipeline schedule ran each stage once more, to infer shapes: that run was left out",
    "unreadable": "{name} (line {line}) was not recorded: Python 3.13.0 to 3.13.2 crash when it is read",
    "class_not_followed": "{name} was not followed: what a class does when an object is made is not checked",
    "tracer_replaced": "another tracer replaced backprobe's, or an error stopped it; later code was not recorded",
    "block_not_differentiated": "the block was not differentiated: {why}",
    "dataset_loop": "{name} loops over a dataset, and was run line by line here, which the program does not do: "
    "compiled, TensorFlow gives None for what goes through such a loop",
    "keras_compiled": "{name} was not followed, which Keras compiles; model.compile(..., run_eagerly=True) lets it be "
    "recorded",
    "jacobian_summed": "tape.{method} gives a derivative of each element of what it differentiates; the gradients here "
    "are those of the sum of these elements",
    "session_runs": "the session has computed gradients {count} times: values and gradients are those of the last time",
    "session_joined": "the program's own session.run was given more to fetch, as {operation} can run only once: the "
    "last bits of what it returns may be others, since TensorFlow fuses what is not fetched",
    "graph_not_followed": "the graph that was built for a session was not followed; "
    "bp.probe(loss, session=session)(feed) records it",
    "one_operation": "{name} is one operation, {kind}: what it computes inside has no names here",
    "passes_on_many": "{name} passes on more than {most} values, of which the first {most} are followed",
    "raised": "the program raised {error}",
    "raised_at": "the program raised {error} ({at}: {text})",
    "rebound": "the program raised {error} ({raised}): {headline}",
    "caught": "the program raised {error}, and caught it",
    "caught_at": "the program raised {error} ({at}: {text}), and caught it",
    "cut_short_at": "a backward() raised an error ({at}: {text}), and the program caught it",
    "interrupted": "the program was interrupted ({error}), and what comes after was not recorded",
    "replaced_nothing": "{option} has {name!r}, which never came up: nothing was replaced",
    "replaced_no_tensor": "{option} has {name!r}, which named no floating-point tensor: nothing was replaced",
    "sum_of_replaced": "replace_grad= changed the gradients of each output by themselves; these are their sum, and not "
    "what it would make of the gradients of the sum",
    "zero_by_hand": "the gradients of {names} are zero everywhere, and every path to them goes through {functions} "
    "({at}: {text})",
    "backward_unrecorded": "{functions} runs during the backward pass, where nothing is recorded of what it calls: "
    "{names} ({at}: {text})",
    "result_dropped": "the result of {call} is dropped",
    "zero_flat": "the gradients of {names} are exactly 0: {operation} is flat there",
    "zero_times_zero": "the gradients of {names} are exactly 0: {operation} multiplies by 0",
    "cancels": "what comes back to {names} cancels: at {operation}",
    "outer_product": "operands of the shapes {shapes} were broadcast to {result}",
    "distribution_twice": "{applied} is applied to probabilities that sum to 1 already",
    "not_log_probabilities": "a negative log-likelihood is taken of numbers that are no log-probabilities",
    "step_without_effect": "{steps} change {share} % of the {dtype} numbers that have a gradient",
    "step_without_gradient": "{optimizer} has stepped {steps} times, and each time the gradients of all its parameters "
    "were None or 0",
    "zero_not_sent": "the gradients of {names} are exactly 0: {operation} sends them nothing, whatever it is given",
    "zero_hooked": "the gradients of {names} are exactly 0: a hook returns 0",
    "stale_copy": "a copy of {names} has old numbers",
    "step_undone": "each step of {names} is undone",
    "update_unused": "new numbers for {names} are used by nothing",
    "step_without_rate": "{optimizer} has stepped {steps} times, each time with lr 0",
    "step_scaled": "{optimizer} steps with gradients that are {scale} times those of the loss: nothing has unscaled "
    "them",
    "all_zero": "{gradients} exactly 0: {names}",
    "zero_behind_stops": "the gradient of {name!r} is exactly 0: every path from it to the output goes through an "
    "operation that has no derivative or a derivative of 0: {operations}",
    "cut_beside": "no gradient flows back along {text} ({at}) to {value}: intended?",
    "detached_beside": "no gradient flows back along {text} ({at}) to {value}: it is detached there",
    # Notes about an entry.
    "zero_behind": "its gradient is zero everywhere, and every path to it goes through {functions} ({at}: {text})",
    "hook_not_called": "a hook of the cell is on it, and was not called, since the cell runs no backward itself",
    "hooked": "a hook is on it, and may change the gradient that arrives here",
    "scaled_by": "backward() ran on {number} × this value; all gradients carry that factor",
    "scaled_by_scaler": "backward() ran on {number} × this value, the scale of a GradScaler; all gradients carry it",
    "scaled_itself_by_scaler": "it is {number} × a value without a name, the scale of a GradScaler; all gradients "
    "carry it",
    "scaled_itself": "it is {number} × a value without a name; all gradients carry that factor",
    "scaled_unknown": "it is a multiple of another value (a scaled loss?); all gradients carry that factor",
    "no_gradient_to_replace": "replace_grad= changed nothing here, as no gradient arrives ({status})",
    "steps": "it was computed in {computed} of {of} steps; in the others it is 0 here",
    "block_too_large": "a Jacobian block of {elements} elements was not computed: the limit is {most}",
    "partials_wait": "its local partials are missing: to take them, several processes would wait for each other",
    "partials_missing": "it is not connected, and its local partials are missing: {error}",
}
"""The sentence of each code. Fields in braces are replaced by the texts that were reported with the code."""


NOT_FETCHED = ("in_graph", "not_fetched", "not_run_again")
"""Codes for the reasons why a tensor in a graph has no value."""

COPY = 'bp.probe(..., values="copy")'
FETCH = "its name among what session.run fetches, or rec = bp.probe(output, session=session)(feed)"
SHARED = ("values are kept as aliases, and share the memory of the tensor", COPY)
WHY_LOST = {
    "not_opened": ("objects of other classes are not opened", "return the tensors themselves, or in a dict"),
    "not_run_again": ("a probe changes nothing that the program computes", FETCH),
    "not_fetched": ("a probe fetches what has a name when the session runs, and can be computed then", FETCH),
    "overwritten_unseen": ("values are kept as aliases, and backprobe did not see this write coming", COPY),
    "overwritten_since": SHARED,
    "memory_freed": SHARED,
    "data_reshaped": SHARED,
    "func_transform": (
        "in there PyTorch wraps each tensor, and the wrapper is usable only while the transform runs",
        "return it from the function that is transformed (torch.func.grad and vjp: has_aux=True)",
    ),
}
"""For reasons why a value is missing: an explanation, and advice. Reasons that need neither are left out."""
