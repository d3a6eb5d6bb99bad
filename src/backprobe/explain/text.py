"""The words of ``explain``: one sentence for each code, and the one place that makes findings of them.

``CAUSES`` has the headline and the remedy of each finding, for every framework; ``SENTENCES`` the facts beside them,
the headings and the notes. The fields in braces come from the recording: ``value`` is the entry that the gradient
would go to, ``target`` what is computed from it, ``text`` and ``call`` parts of the line, ``reason`` what the
framework's adapter reported. Other fields are words of the framework (``framework_words.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from string import Formatter

from backprobe.cuts.usage import STEPS
from backprobe.explain.framework_words import FrameworkWords
from backprobe.findings.report import Finding
from backprobe.record import reasons
from backprobe.record.source import Source

CAUSES = {
    "detach": (
        "{text} copies the values of {value} but not its gradient history, so {target} is disconnected",
        "leave out detach(), and gradients flow from {target} to {value};\n"
        "if this is intentional, ask for another value's gradient",
    ),
    "stop_gradient": (
        "{text} lets no gradient through, so {target} is disconnected from {value}",
        "leave out stop_gradient, and gradients flow from {target} to {value}",
    ),
    "data": (
        "{text} copies the values of {value} but not its gradient history, so {target} is disconnected",
        "use {value} itself, without .data, and gradients flow from {target} to it",
    ),
    "number": (
        "{text} turns {value} into Python numbers, which have no gradient history",
        "use {value} itself: {tensor} works like a number, and gradients flow through it",
    ),
    "numpy": (
        "{text} takes {value} out of the framework: NumPy arrays have no gradient history",
        "use the framework's own operation on {value} itself",
    ),
    "copied": (
        "{text} copies the values of {value} into a new tensor without gradient history",
        "use {join}: all of these keep the history",
    ),
    "copied_unseen": (
        "{text} copies the values of {value} into a new tensor without gradient history",
        "put tensors into {plain} from the start, without item() or numpy(); then use {join}",
    ),
    "parameter": (
        "{text} makes a new leaf from the values of {value}, so gradients stop there",
        "compute with {value} itself; make a parameter once, before anything is computed from it",
    ),
    "assigned": (
        "{text} writes the values of {value} into a Variable, and no gradient flows through an assignment",
        "compute with {value} itself; use a Variable for what is kept from step to step",
    ),
    "index": (
        "{text} gives positions, which jump or stay the same as {value} changes: they have no derivative",
        "use something smooth instead (softmax weights instead of argmax),\n"
        "or take the value at that position, whose gradient flows: {at_position}",
    ),
    "comparison": (
        "{text} is true or false: it jumps or stays the same as {value} changes, so it has no derivative",
        "use {where} or a product to select among differentiated values, or a smooth step such as sigmoid",
    ),
    "integer": (
        "{text} converts {value} to integers, which have no derivative",
        "keep a floating-point dtype: gradients flow through {floating}, not through integers",
    ),
    "not_float": (
        "{target} has the dtype {dtype}: only floating-point and complex values have derivatives",
        "keep a floating-point dtype between {value} and the output",
    ),
    "no_grad": (
        "{target} is computed from {value} {mode}, where no gradient history is recorded",
        "compute {target} outside that context, and gradients flow to {value};\n"
        "look also for a decorator on the function, or an earlier line that switched gradients off and never on again",
    ),
    "sample": (
        "{text} draws samples without gradient history, so {target} is disconnected from {value}",
        "use {draw_smoothly}: gradients flow through such samples; or use a loss of log_prob()",
    ),
    "derivative": (
        "{text} gives gradients that have no history of their own, so {target} is disconnected from {value}",
        "use {differentiably}, and gradients flow through its result",
    ),
    "differentiated": (
        "{text} uses only the derivative of {value}: {target} does not depend on its value",
        "if this is intentional, nothing is wrong; otherwise use {value} itself as well, and gradients flow to it",
    ),
    "checkpoint": (
        "no input of {text} requires a gradient, so this checkpoint records nothing, not even for its parameters",
        "use_reentrant=False; or requires_grad_() on one of its inputs, before the call",
    ),
    "inside": (
        "{call} returns a value that does not lead back to {value}: it is cut off inside, or not used there",
        "look inside: bp.probe({function})(...) by itself records its lines",
    ),
    "inside_recorded": (
        "{call} returns a value that does not lead back to {value}: it is cut off inside, or not used there",
        "the lines of {function} are recorded: give its result a name, out = ..., and ask again",
    ),
    "silent": (
        "the graph connects {target} to {value}, but backward sent no gradient along that edge",
        "if a custom backward lies between them, it returned None for {value}: return the gradient;\n"
        "an operation without a derivative does the same",
    ),
    "limited": (
        "{text} computes gradients for its inputs= only, and for no other value",
        "call backward() without inputs=, or with {value} among them",
    ),
    "unknown": (
        "{target} uses {value}, but the graph does not connect them; the line does not show why",
        "give names to the parts of that line, u = ..., and ask again",
    ),
    "unused": (
        "nothing that was recorded leads from {value} to {outputs}",
        "use {value} itself in the computation, or ask for the value that is used;\n"
        "uses in objects, closures and functions that are not followed cannot be seen: give the value a name there",
    ),
    "not_seen": (
        "no path from {value} to {outputs} was recorded: it is not used there, or is cut off on the way",
        "bp.probe(model, ['**', '**:*']) records the lines of each forward: ask there",
    ),
    "not_selected": (
        "nothing that was recorded leads from {value} to {outputs}, and not every name on the way was selected",
        "probe without a selection, or select the names after {value} too: then the line is known",
    ),
    "made_again": (
        "{again} computes {text} a second time: that is another tensor, and {value} is not in the graph",
        "use {value} itself in that line, and it gets its gradient",
    ),
    "other_call": (
        "{value} does not go into {outputs}: another value of the same name does",
        "ask for the one that the output was computed from: {others}",
    ),
    "written_since": (
        "{value} was modified later, and nothing leads from its earlier version to {outputs}",
        "record one step of training at a time, or give of= what this step computes",
    ),
    "frozen": ("nothing recorded that {value} is computed from requires a gradient", "{require}"),
    "frozen_leaf": ("{value} does not require a gradient, so none is computed", "{require_it}"),
    "frozen_unseen": (
        "{value} is computed by {text}, and nothing that goes into that call requires a gradient",
        "{require_inside}",
    ),
    "made_leaf": (
        "{value} was made to require a gradient after it was computed, so backward ends there at once",
        "leave out requires_grad = True on results: it hides the error and trains nothing; repair the cut instead",
    ),
    "not_tensor": (
        "{value} is not a tensor: {reason}",
        "ask for the gradient of the tensor that it was made from, or that it went into",
    ),
    "not_executed": (
        "{value} was never computed: {reason}",
        "call what computes it, or ask for a value that was computed",
    ),
    "module_not_run": (
        "{value} is a parameter of {module}, and that module did not run",
        "call {module} where its result goes into the output; if it is left out on purpose, nothing is wrong",
    ),
    "backward_not_run": ("no backward pass was recorded: {reason}", "{go_back}"),
    "overwritten": (
        "{value} was modified outside autograd; gradients that need it use the new values",
        "use an ordinary operation, u = u * 2; a leaf may be modified under torch.no_grad() before it is used",
    ),
    "outside_tape": (
        "a tape gave None for {value}: {target} was computed while that tape did not record",
        "compute {target} inside `with tf.GradientTape() as tape:`, and everything that leads to it from {value}",
    ),
    "not_watched": (
        "a tape gave None for {value}, which it does not watch",
        "call tape.watch({plain}) in the tape before it is used: by itself a tape watches only trainable Variables",
    ),
    "none_given": (
        "a tape gave None for {value}: {reason}",
        "with bp.probe(of=...) as rec, where of= is what was differentiated, and bp.explain(rec, {value})",
    ),
    "opaque": (
        "the gradient of {value} cannot be captured: {reason}",
        "record it where it can be seen: see the reason",
    ),
    "hooked": (
        "a hook is on {value}, and its gradient is zero after the hook has run",
        "leave out the register_hook() on {value}, and ask again",
    ),
    "zero_derivative": ("the derivative of {target} with respect to {value} that backward uses is 0", "{instead}"),
}  # fmt: skip
"""The headline and the remedy of each cause, with what the remedy changes."""

WITHOUT_RECORDING = {
    "no_history": (
        "{loss} leads back to nothing that requires a gradient",
        "requires_grad_() on what should be differentiated; or repair the cut: detach(), no_grad and the like",
    ),
    "loss_is_leaf": (
        "{loss} is a leaf: backward() from it ends there at once",
        "leave out requires_grad = True on results, and repair what cuts the graph",
    ),
    "not_scalar": (
        "{loss} is not a single number, and backward() needs one",
        "{loss}.sum() or .mean(); or {loss}.backward(v) for a vector v",
    ),
    "in_place": (
        "a value that backward needs was modified after it was saved",
        "u = u * 2 instead of u.mul_(2); with bp.probe() as rec: around the program names both lines",
    ),
    "made_integer": (
        "{name} is {tensor}: only floating-point and complex values have derivatives",
        "make it with a floating-point dtype, torch.tensor([1.0, 2.0])",
    ),
    "inference": (
        "{name} was made under torch.inference_mode(), and cannot have a gradient",
        "{name}.clone() outside it, or torch.no_grad() instead",
    ),
    "requires_none": (
        "{name} does not require a gradient: it was made so, or was cut off",
        "{name}.requires_grad_() before it is used; if it was computed from something that requires a gradient, "
        "detach(), no_grad or the like cut it off",
    ),
    "not_retained": (
        "{name} is not a leaf, so its .grad stays None: nothing is wrong",
        "{name}.retain_grad() before backward(), or a probe around it;\n"
        "if it is meant to be trained, make it first: w = (torch.randn(3) * 0.1).requires_grad_()",
    ),
    "reentrant": (
        "{loss} was computed through a reentrant checkpoint, whose parameters are not in its graph",
        "use_reentrant=False, and ask again; or run backward() and look",
    ),
    "other_view": (
        "{name} is a view, and {loss} was computed from another view of the same tensor",
        "use {name} itself there",
    ),
    "shared": (
        "{others} shares its memory with {name}, and is what {loss} leads back to",
        "its .grad is filled; or use {name} itself",
    ),
    "not_computed_from": (
        "{loss} was not computed from {name}, or was cut off from it",
        "use {name} itself in what {loss} is computed from",
    ),
}  # fmt: skip
"""The same for what PyTorch's graph alone shows, where nothing was recorded."""

KINDS = {
    "inside_recorded": "inside", "copied_unseen": "copied", "not_seen": "unknown", "not_selected": "unknown",
    "frozen_unseen": "frozen", "module_not_run": "not_executed", "loss_is_leaf": "made_leaf",
    "made_integer": "not_float", "requires_none": "frozen", "reentrant": "unknown", "other_view": "made_again",
    "not_computed_from": "unused",
}  # fmt: skip
"""The ``kind`` of the findings whose sentence is a special case; of the others it is the code."""

SENTENCES = {
    # facts about a cut
    "states": "{value} is {state}, {target} is {other}",
    "cut_before": "{value} is already disconnected; this line would disconnect it again",
    "conditional": "the line may have skipped this part, which is under a condition",
    "loop_count": "how often the loop runs may depend on it",
    "goes_on": "the values of {target} go on to {outputs}",
    "made_in": "its result is computed in {function}, {at}",
    "same_line": "the same line does the same to {names}",
    "and_to": "the same happens to {names}",
    "missing_for_it": "the gradients that are missing because of it: {names}",
    "inside_module": "all of this is computed inside {module}: look at the line that calls it",
    "as_another": "the same line made {value}, which is cut off here; {limit}",
    "not_selected_on": "the way on from {target} was not selected to its end",
    "hidden_to": "{value} is not recorded: nothing of its history passes this line",
    "hidden_of": "{value} appears in that line, and is this value unless something else has the same name there",
    # facts about what leads nowhere
    "no_edge": "no edge leads from {target} back to {value}, and none is needed",
    "no_use": "that part of the line may not use its values, as an index does not",
    "new_tensor": "such an expression gives a new tensor each time it runs",
    "nothing_from_it": "no recorded value is computed from {value}",
    "ends_at": "what is computed from it ends there: {at}",
    "and_more": "and {more} more",
    "callers": "inputs and outputs of a module are recorded where its caller's locals are selected, as with ':*'",
    "shape_only": "only the shape and the like of {names} are used, not their values",
    "from_frozen": "computed from {at}, which does not require a gradient",
    "call_unseen": "{text} is not recorded, and gives nothing that requires a gradient",
    "no_edge_back": "no edge leads from {value} to anything that it is computed from",
    # facts about gradients that are there
    "became_zero": "the gradient of {target} is not zero, that of {value} is zero everywhere",
    "value_is_zero": "{target} itself is zero everywhere: all of it is switched off for this input",
    "also_into": "{value} also goes into {others}; contributions may have cancelled: "
                 "bp.probe(..., partials=True) shows each",
    "see_partials": "bp.probe(..., partials=True) gives the derivative of each value with respect to each input",
    # facts about tapes
    "asked_for": "asked for: {at}",
    "same_of": "the same of {names}",
    "own_tape": "the recorded gradient is that of the probe's own tape, which records the whole block",
    "no_way": "nothing that was recorded leads from it to what was differentiated there",
    "why_unknown": "the recording does not show why",
    # facts about a graph alone
    "loss_without": "{loss} is {described}, and has no grad_fn",
    "loss_leaf": "it has no grad_fn, and requires a gradient by itself, as after requires_grad = True on a result",
    "loss_size": "{loss} is {described}",
    "saved_by": "saved by {operations}",
    "tensor_without": "{name} is {described}, and has no grad_fn",
    "same_memory": "it shares its memory with {others}",
    "filled_at_leaves": "{name} was computed by {operation} from {leaves}, and .grad is filled there",
    "own_pass": "{operations} runs a backward pass of its own",
    "other_operation": "another {operation} of the same input is in the graph of {loss}, that of {name} is not",
    "made_of_other": "one was made from the other by detach(), .data or Parameter(), which cut the history",
    "computed_by": "{name} was computed by {operation} from {leaves}",
    "both_from": "both come from {leaves}, on ways that part before {name}",
    "loss_leads_to": "{loss} leads back to {leaves}",
    # headings
    "overview": "{there} of {all} values have their gradient",
    "overview_of_one": "1 of {all} values has its gradient",
    "lost": "{count} have none although they have a history",
    "lost_one": "1 has none although it has a history",
    "missing": "{value} has no gradient ({status})",
    "missing_because": "{value} has no gradient ({status}): {reason}",
    "present": "{value} has its gradient: nothing is missing",
    "present_partly": "{value} has a gradient, but some of its uses do not contribute",
    "present_not_on_tape": "{value} has its gradient here, but a tape of the program's own gave None for it",
    "present_but": "{heading}, but there is something to know about it",
    "path_unseen": "no path is visible from {loss} to {name}, and part of the graph cannot be seen",
    "path_filled": "a path leads from {loss} to {name}: backward() gives it a gradient",
    "path": "a path leads from {loss} to {name}",
    "no_path": "no path leads from {loss} to {name}: backward() gives it no gradient",
    # notes
    "lost_beside": "no gradient flows back along {at} to {names}: intended?",
    "lost_beside_more": "the same along {more} more lines",
    "assigned_between": "no gradient flows to earlier steps through assignments: {places}",
    "only_derivative": "only the derivative is used of: {names}",
    "not_used": "computed, and not used for an output: {names}",
    "frozen_all": "computed from nothing that requires a gradient: {names}",
    "hidden_cut": "cut off from {parts}, which is not recorded ({kinds}): {at}",
    "not_tensors": "not tensors: {names}",
    "no_floats": "neither floating-point nor complex: {names}",
    "never_computed": "never computed: {names}",
    "aliases": "the same value is also called {names}",
    "own_grad": "it was computed, and is not a leaf: in PyTorch its own .grad is None, and rec[{value}].grad is there",
    "not_finite": "{count} of the {size} elements of the gradient are not finite",
    "see_names": "{heading}: bp.explain(rec, name) says why",
    "graph_freed": "part of the graph of {loss} is freed: backward() or grad() has run through it, and a second "
                   "call raises",
    "no_lines": "the graph knows operations, not lines: rec = bp.probe(f)(x), or with bp.probe() as rec: around the "
                "program, and bp.explain(rec, name) names the line",
    "python_nodes": "{operations}: written in Python, and may give None for {name}; only running it shows",
}  # fmt: skip
"""Facts, headings and notes by their codes."""

ERRORS = {
    "in_place": "backward needs {value} as it was, but the program modified it afterwards",
    "saved_for": "{at}, for the derivative of {operations}",
    "written_unseen": "at an unknown line: no recorded name was live there",
    "by_module": "by the module {module}",
    "by_module_as": "by the module {module}, as {value}",
    "write_of_modules": "inplace=False for the module {modules}",
    "write_of_update": "update it after the last backward() through what was computed from it",
    "write_in_call": "inplace=False for the module that this line calls, or no write inside what it calls",
    "write_of_item": "an ordinary operation instead: a new tensor, torch.stack([...]) or torch.where(...), and not "
                     "{name}[...] = ...",
    "write_by_copy": "an ordinary operation instead: a new tensor each time, {name} = ..., and not {name}.copy_(...)",
    "write": "an ordinary operation instead, {name} = {name} * 2 and not {name}.mul_(2)",
    "write_augmented": "an ordinary operation instead, {name} = {name} {operator} ... and not {name} {operator}= ...",
    "freed": "this backward pass needs a part of the graph that an earlier {call} used and freed",
    "freed_unseen": "an earlier backward() or grad(), not seen here, has used and freed the graph behind {value}",
    "freed_unseen_next": "retain_graph=True there, or create_graph=True of an inner probe; or compute it again",
    "freed_itself": "an earlier {call} has used and freed the graph behind {value}",
    "freed_itself_by_grad": "retain_graph=True in that call",
    "freed_itself_next": "call backward() once; sum two losses of the same values first: (a + b).backward()",
    "freed_sum": "sum the losses and call backward() once: (a + b).backward();\n"
                 "or retain_graph=True in the first call",
    "freed_carried": "{detach} before it is used again, if gradients need not flow into the step before;\n"
                     "or compute it again; or sum the losses and call backward() once",
    "no_history": "{value} leads back to nothing that requires a gradient",
    "frozen_calls": "requires_grad_() on what {calls} computes with, as the parameters of a module",
    "frozen_leaves": "requires_grad_() on {names}, before it is used",
    "not_scalar": "{value} has the shape {shape}, and only a single number has one gradient",
    "not_scalar_next": "{name}.sum().backward() or .mean(); {name}.backward(v) for a vector v",
    "unused": "nothing leads from the output back to {values}",
    "unused_next": "use it in what is computed, or allow_unused=True, which gives None for it",
    "leaf_written": "{value} is a leaf that requires a gradient, and must not be modified in place",
    "leaf_written_next": "{name} = {name} * 2 for a new value; with torch.no_grad(): around an update",
    "view_written": "{value} is a view that must not be modified in place",
    "view_written_next": "{name} = {name} * 2 for a new value; or write to its base, u[0].mul_(2)",
    "inference": "made under torch.inference_mode(): {values}",
    "inference_next": "{name}.clone() where it is used, or torch.no_grad() instead of torch.inference_mode()",
    "not_float": "integers and truth values have no derivative",
    "not_float_next": "write floating-point numbers, torch.tensor([1.0, 2.0]), or dtype=torch.float32",
}  # fmt: skip
"""Sentences of the notes on errors; ``..._next`` is what to do about them."""

FLAT = {
    "relu": "relu is 0 with derivative 0 where its input is negative: leaky_relu or gelu let gradients through",
    "clamp": "clamp has derivative 0 outside its limits: use wider limits, or a smooth function such as tanh",
    "clip": "clip has derivative 0 outside its limits: use wider limits, or a smooth function such as tanh",
    "hardtanh": "hardtanh has derivative 0 outside its limits: use tanh",
    **dict.fromkeys(STEPS, "{op} is flat between its steps: use a straight-through estimator, {straight_through}"),
    "normal": "normal draws samples without a derivative: use mean + deviation * {noise}",
    **dict.fromkeys(
        ("bernoulli", "poisson"),
        "{op} draws samples without a derivative: use a loss of log_prob(), or a relaxation",
    ),
}
"""What to write instead of operations that are flat, by the name of the operation."""


def say(code: str, **fields: object) -> str:
    """A fact, a heading or a note."""
    return reasons.render(code, SENTENCES[code], fields)


def in_error(code: str, **fields: object) -> str:
    """A sentence of the note on an error."""
    return reasons.render(code, ERRORS[code], fields)


def instead_of_flat(operation: str, framework: str) -> str:
    """The remedy for an operation that is flat; empty for any other."""
    return FLAT.get(operation, "").format_map(FrameworkWords(framework, {"op": operation}))


def finding(
    code: str, name: str, source: Source | None, framework: str, /, *, facts: Sequence[str] = (),
    chain: tuple[str, ...] = (), **fields: str,
) -> Finding:  # fmt: skip
    """The finding of a cause: its headline and remedy filled in with these fields."""
    headline, remedy = CAUSES[code] if code in CAUSES else WITHOUT_RECORDING[code]
    words = FrameworkWords(framework, fields)
    return Finding(
        KINDS.get(code, code), name, reasons.render(code, headline, words), source, tuple(facts), chain,
        reasons.render(code, remedy, words), {field: fields[field] for field in _fields(headline)},
    )  # fmt: skip


@cache
def _fields(sentence: str) -> tuple[str, ...]:
    """The fields that a sentence names."""
    return tuple(name for _, name, _, _ in Formatter().parse(sentence) if name)
