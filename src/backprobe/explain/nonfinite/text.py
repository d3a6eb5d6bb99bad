"""The texts of reports about NaN and Inf, one for each code, and the function that makes findings of them.

In the sentences, ``word`` is NaN or Inf, ``name`` the entry that the finding is about, and ``born`` the words for a
birth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from backprobe.explain.nonfinite.states import WORDS, Badness
from backprobe.findings.phrasing import plural
from backprobe.findings.report import Finding
from backprobe.record import reasons
from backprobe.record.brief import place
from backprobe.record.source import Source

MOST = 4
"""The largest number of names within a sentence."""

SENTENCES = {
    # headlines of the forward pass
    "came_in": "{word} comes in with {name}",
    "came_in_buffer": "{word} comes in with the buffer {buffers}, at {name}",
    "came_in_held": "{word} comes in with {held}, at {name}",
    "born": "{born} at {name}",
    "born_inside": "{born} inside {name}, which is finite again",
    "born_or_from": "{word} is born at {name}, or came there from {lost}, whose value is not known",
    "born_or_with": "{born} at {name}, or came in with {lost}, which {verb} not recorded",
    "born_or_written": "{word} at {name}: computed from the recorded values it is finite, so {read} may have been "
    "written to where backprobe does not look, as by .data",
    "born_within": "{word} is born inside {place}, between {given} and its output {name}",
    "born_within_or_before": "{word} comes out of {place}: created inside it, or already in its inputs",
    "born_before_backward": "backward() ran on {word}: it arose between {given} and that value, or came in with "
    "something else",
    "born_in_output": "{word} is born between {given} and {name}, what the function given as of= returned, or came in "
    "with something else",
    "healed": "{bad} is healed at {healer}",
    "written_finite": "{word} is written into {parameters} at {line}, from finite gradients",
    "written_inf": "{word} is written into {parameters} at {line}, from gradients that hold Inf",
    "written_nan": "{word} is written into {parameters} at {line}, from gradients that hold NaN",
    "written_unknown": "{word} is written into {name} at {line}: what is recorded of what went in is finite",
    "written_none": "{word} is written into {parameters} at {line}, without gradients",
    "output_unexplained": "the output {name} holds {word}, and where that began is not known",
    "gradient_unexplained": "the gradient of {name} holds {word}, and where that began is not known",
    "propagated": "NaN and Inf spread from there",
    "propagated_to": "NaN and Inf spread from there, and come to the output {outputs}",
    "apart": "there is more NaN or Inf, and no recorded path leads there from these places",
    # headlines of the backward pass
    "born_backward": "{born} in the backward of {name}",
    "born_backward_of_one": "{born} in the backward of {suspects}, on the way to {wrt}",
    "started_bad": "{word} comes in with the gradient that backward starts from, at {name}",
    "came_on_the_way": "{word} comes to the gradient of {name} on the way from {start}: by an operation between them, "
    "a hook, or the sum of the incoming gradients",
    "came_in_backward": "{word} comes in at the gradient of {name}: a hook on it, or the sum of the incoming gradients",
    # the words for a birth: its kind, and its place
    "what_is_recorded": "what is recorded",
    "is_born": "{word} is born",
    "is_born_of_inf": "{word} is born of Inf",
    "module": "the module {path}",
    "model": "the model",
    # the arithmetic behind NaN or Inf
    "zero_zero": "0/0",
    "zero_inf": "0 · Inf",
    "inf_minus_inf": "Inf − Inf",
    "inf_inf": "Inf/Inf",
    "by_zero": "division by zero",
    "by_nearly_zero": "division by 0, or by a number so close to it that the quotient overflows",
    "remainder": "the remainder of a division by zero",
    "zero_to_negative": "0 to a negative power",
    "fractional_power": "a negative number to a fractional power",
    "negative_root": "the square root of a negative number",
    "at": "{op}({limit})",
    "below": "{op} of a number below {limit}",
    "outside": "{op} of a number outside −1…1",
    "infinite_row": "Inf − Inf: a row that is Inf or all −Inf",
    "infinite_terms": "0 · Inf or Inf − Inf",
    "too_few": "0/0: of too few numbers",
    "determinant_zero": "log(0): the determinant is 0",
    "determinant_below": "log of a number below 0: the determinant is negative",
    "not_definite": "the matrix is not positive definite",
    "singular": "the matrix is singular",
    "all_ignored": "0/0: every target is ignored",
    "overflow": "overflow",
    "overflow_of": "overflow: {dtype} ends at {limit}",
    "overflow_by_scale": "overflow: {dtype} ends at {limit}: the loss {loss} times its scale {scale}",
    "scale_not_finite": "the loss {loss} is multiplied by a scale that is itself {word}",
    "written_out": "it is written there",
    "pole": "the derivative of {op} is infinite at {places}",
    "pole_nan": "0 · Inf: the derivative of {op} is infinite at {places}",
    "pole_undefined": "the derivative of {op} is 0/0 at {places}",
    "pole_of_result": "the derivative of {op} is 0/0 where its result is {places}",
    "exponent_of_negative": "with respect to the exponent, the derivative of a power has log(base), and the base is "
    "negative",
    "pole_zero": "0 · Inf: a zero gradient, and the derivative of {op} is infinite at {places}",
    "zero_gradient_nan": "0 · NaN: a zero gradient",
    "zero_gradient_inf": "0 · Inf: a zero gradient",
    "zero_gradient_part": "0 · {word}: a zero gradient, and `{part}` is {word}: {why}",
    "zero_gradient": "0 · Inf or 0 · NaN: a zero gradient",
    "infinite_gradient": "0 · Inf: a gradient of Inf",
    "derivative_bad": "the derivative of {of} is {derivative}",
    "derivative_zero": "0 · {derivative}: a zero gradient, and the derivative of {of} is {derivative}",
    # the numbers at the first bad element
    "first_place": "`{text}`{at}: {numbers}",
    "beyond": "the index {number}{at} of {name} is beyond {table}, which has {size} along dimension {axis}",
    "heard": "run again with its operations heard, {op}{numbers}{line}",
    "heard_in": ", in `{text}`{at}",
    "no_numbers": "no numbers",
    "one_number": "1 number, {number}",
    "same_numbers": "all {count} numbers are {number}",
    "numbers_from": "{count} numbers, from {low} to {high}",
    "some_numbers": "{count} numbers",
    "first_gradient": "the gradient of {wrt}{at} is {number}: {numbers}",
    "value_there": "{name} is {number} there",
    "result_there": "{name} is {number}",
    "came_there": "the incoming gradient is {number}",
    "of_operation": "{op}{at}",
    "of_element": "{owner}{into} with respect to {wrt}{at}",
    "factors": "the derivative of {of} is {derivative}, times an incoming {came}",
    "factors_zero": "0 · {derivative}: the derivative of {of} is {derivative}, times an incoming {came}",
    "eigenvalue": "the smallest eigenvalue of {matrix} is {number}",
    "matrix_determinant": "the determinant of {matrix} is {number}",
    "pivot": "a pivot of {matrix} is 0: its rank is {rank} of {size}",
    "equal_values": "two {kind} of {matrix} are equal: {numbers}",
    # facts about values and gradients
    "of_shape": "{value} of shape {shape}",
    "holds": "{value}: {count}",
    "not_known": "{value} is not known",
    "not_recorded": "{names} {verb} not recorded",
    "is_number": "{value} is {number}",
    "is_finite": "{value} is finite",
    "is_between": "{value} is finite, between {low} and {high}",
    "gradient": "the gradient of {name}: {count}",
    "no_gradient": "not there",
    # further facts
    "made": "the operation {operation} was given {given} and made {word}",
    "made_unknown": "its backward was given {given} and made {word}",
    "received": "they received {given}",
    "finite_gradient": "a finite gradient",
    "no_line": "{at}: no line of it is recorded",
    "first_used": "it is first used by {line}",
    "spoils": "no output holds it, but the backward of {owner} reads it and makes {word}",
    "part": "`{text}` gives {word}",
    "mask": "the Inf of {name} is written there{line}",
    "begins": "it begins in step {step} of the loop, counted from 0",
    "begins_again": "{begins}, and again in {steps}, where its inputs are finite",
    "buffer_held": "the buffer {buffer} held {count} before the model ran",
    "carried": "an earlier iteration left it, where it came to no output yet; this one began with it in {name}",
    "left": "an earlier iteration left it in {name}: {birth}{line}",
    "held_before": "{names} held {word} before anything was seen to write to it",
    "masked": "it lies in the branch {branch} of {where}, where unselected elements receive a zero gradient",
    "scaled": "the loss was multiplied by {scales} before backward; under a GradScaler an overflow is expected now and "
    "then: it skips the step and lowers the scale",
    "diverging": "the training diverges: in the steps before, {name} was {more}{losses}",
    "unknown_number": "an unknown number",
    "inputs_unseen": "the module's other inputs are not recorded",
    "repeated": "this happens {times}: {names}",
    "spread_to": "{counted}: {names}",
    "optimizer": "the optimizer: {optimizer}",
    "written_before": "{word} had been written into {parameters} before, at {line}",
    "unseen_line": "a statement after backward(), such as a step of an optimizer",
    "and_more": "{names} and {more} more",
    # remedies
    "see_inside": "bp.probe(model, {selection}, nonfinite=True), to see the line",
    "see_lines": "with bp.probe(nonfinite=True) as rec: around the same lines, with each result bound to a variable",
    "name_first": "`{name} = {call}` on a line of its own before, and `{name}` in this line, to know its numbers",
    "see_operation": "bind each operation of the line to a variable; or, outside a block, select '**:*()' too",
    "see_kept": "record with nonfinite=True, on the command line --nonfinite: then the numbers that a step overwrites "
    "are kept",
    "see_which": "bp.probe(f, nonfinite=True, partials=True)(x), with these lines in a function f",
    "see_divisor": "look at {names}: what it divides by is 0, or nearly",
    "see_negative": "find out why {name} is negative (down to {low}). If that is rounding, keep it above 0 there; if "
    "not, make it positive where it is computed, as by {softplus}",
    "see_more": "record every name, without a selection; in JAX and TensorFlow, partials=True shows more of backward",
    "smaller_steps": "a smaller learning rate; or {clipped}",
    "lower_scale": "a smaller scale, such as a lower init_scale of the GradScaler",
    "double_where": "substitute a harmless number for `{operand}` where the result is not taken: safe = "
    "{where}(condition, {operand}, 1), then {where}(condition, f(safe), other); the values stay the "
    "same, and no zero gradient meets an infinite derivative",
    "instead": "`{instead}` instead of `{formula}`: {because}",
    "tried_instead": "`{instead}` instead of `{formula}`",
    "nudged": "each value that this line gives a call was moved by {eps} in a run of its own: all is finite only "
    "where it was {value}",
    "cured": "all {count} outputs and gradients are finite then{equal}",
    "cured_here": "nothing is born at this line then; {finite} of {count} outputs and gradients are finite{equal}",
    "cured_script": "in {iterations} no operation makes NaN or Inf then{equal}",
    "cured_script_kind": "in {iterations} no operation makes {word} then, and all losses are finite{equal}",
    "cured_script_here": "in {iterations} nothing is born here then, but elsewhere{equal}",
    "losses_equal": ", and losses that were finite are the same",
    "losses_changed": ", and not all losses that were finite are the same",
    "cured_equal": ", and equal where they were finite before",
    "cured_changed": ", and some are not equal where they were finite before",
    "stands_for": "{name} stands for {what}",
    "stands_for_input": "{name} stands for what `{call}` gives without its last {layer}",
    "or_else": "{said}; or, with labels at hand, `{also}`",
    "reset_statistics": "reset_running_stats() of that module starts them anew; a batch of one number for a channel "
    "is what spoils them most often: DataLoader(..., drop_last=True)",
    # why remedies help
    "rounded_softmax": "softmax rounds small probabilities to 0, and this never computes the probabilities",
    "rounded_sigmoid": "sigmoid rounds to 0 and to 1, and this never computes the probability",
    "sum_of_others": "softmax rounds to 1, and this is the logarithm of the sum of the other probabilities",
    "inverse_of_sigmoid": "the same number: it is what sigmoid was applied to",
    "root_of_rounded": "the probability rounds to 0, where the derivative of the root is infinite, and this never "
    "computes it",
    "cancelled_exp": "exp rounds to 1 near 0, and expm1 does not",
    "cancelled_exp_at_zero": "exp rounds to 1 near 0, and expm1 does not; at 0 the logarithm has no value",
    "rounded_tanh": "tanh rounds to 1 and to −1, and this never computes it",
    "rounded_product": "the product underflows to 0, and a sum of logarithms does not",
    "overflowing_exp": "exp leaves the range of its dtype, and this function never computes it",
    "clipped_exp": "the sum is not clipped, and exp leaves the range of its dtype there; this function never computes "
    "it",
    "root_of_exp": "the same number without a root, whose derivative is infinite where exp rounds to 0",
    "root_of_square": "the same number, and its derivative is finite at 0",
    "zero_log_zero": "0 times this logarithm is 0; xlogy is 0 there, too, but its derivative need not be finite",
    "root_at_zero": "a small number keeps it from 0, where the derivative is infinite",
    "power_at_zero": "a small number keeps it from 0, where the power, or its derivative, is infinite",
    "divided_by_root": "a small number inside the root keeps it, and what its derivative divides by, from 0",
    "norm_at_zero": "a small number inside the root keeps it from 0, where the derivative is 0/0",
    "one_element": "one number alone has no estimate of its spread: this divides by n, not by n − 1",
    "logit_at_one": "it is infinite at 0 and at 1, and beyond them it is NaN",
    "lgamma_at_zero": "a small number keeps it from 0, where it is infinite",
    "inverse_at_one": "its derivative is infinite at the ends of its range, and beyond them it is NaN",
    "angle_of_zero": "0 has no angle; this gives the same value, and a finite derivative",
    "log_of_zero": "a small number keeps it from 0, where the logarithm and its derivative are infinite",
    "rounded_below_zero": "rounding makes it negative; this keeps it above 0, with a gradient of 0 for what was below",
    "division_by_zero": "it divides by 0 nowhere",
    "left_out": "what is not taken is computed from a harmless number then, and no zero gradient meets a derivative "
    "that is not finite",
    "exp_overflows": "larger numbers leave the range of the dtype",
    "masked_row": "a row of −Inf alone has no softmax; a large negative number masks as well, as does a mask of "
    "that number in place of −Inf",
    "no_target": "the mean over no target is 0/0, and this is 0",
    # headings and notes
    "unread": "nothing was checked: no value or gradient has numbers that can be read",
    "clean": "no NaN or Inf comes to an output or a gradient: {values} and {grads} were checked",
    "begins_at": "NaN or Inf begins at {places}, first at {first}",
    "late": "recorded without nonfinite=True: checked only now, and the operations of backward are not known",
    "harmless": "{word} at {at} does no harm: no output and no gradient holds NaN or Inf because of it",
    "harmless_healed": "{word} at {at} does no harm: finite again at {healers}",
    "overflow_healed": "{word} at {at} ({why}) is finite again at {healers}: no output and no gradient holds it, but "
    "what is computed from it need not be right",
    "births_unjudged": "where NaN or Inf begins could not be judged",
    "failed": "evaluating the recorded lines again failed: {error}",
    "remedy_unjudged": "not every remedy could be tried at {at}: evaluating the line again failed ({error})",
    "by_op": "{name}, by {op}",
}


KINDS = {
    **dict.fromkeys(("came_in_buffer", "came_in_held", "written_inf", "written_nan"), "came_in"),
    **dict.fromkeys(
        (
            "born_or_from",
            "born_or_with",
            "born_within_or_before",
            "born_before_backward",
            "born_in_output",
            "born_or_written",
            "born_backward_of_one",
            "came_on_the_way",
            "output_unexplained",
            "gradient_unexplained",
            "apart",
            "written_none",
            "written_unknown",
        ),
        "unknown",
    ),
    **dict.fromkeys(("born_inside", "born_within", "written_finite"), "born"),
    **dict.fromkeys(("started_bad",), "came_in_backward"),
    **dict.fromkeys(("propagated_to",), "propagated"),
}
"""For codes of special cases, the ``kind`` of the finding; for all others the kind is the code."""


@dataclass(frozen=True)
class WrittenInstead:
    """A remedy in words, with the old and the new expression if it can be written as code."""

    said: str = ""
    formula: str = ""
    instead: str = ""

    def __bool__(self) -> bool:
        return bool(self.said)

    @property
    def fields(self) -> dict[str, str]:
        """The old and new expression, as fields of a finding."""
        return {"formula": self.formula, "instead": self.instead} if self.formula else {}


class Mechanism(reasons.Reason):
    """The arithmetic by which a number became NaN or Inf."""

    def __str__(self) -> str:
        return say(self.code, **self.fields)


def say(code: str, **fields: object) -> str:
    """The sentence of a code."""
    return reasons.render(code, SENTENCES[code], fields)


def finding(
    code: str,
    about: str,
    source: Source | None,
    /,
    *,
    facts: Sequence[str] = (),
    chain: tuple[str, ...] = (),
    remedy: str = "",
    why: Mechanism | None = None,
    **fields: str,
) -> Finding:
    """Make the finding of a code about the entry with this name. ``why``, if known, ends the headline."""
    headline = say(code, **fields) + ("" if why is None else f": {why}")
    parts = fields if why is None else {**fields, "why": why.code}
    return Finding(KINDS.get(code, code), about, headline, source, tuple(facts), chain, remedy, parts)


def born(state: Badness, given: Badness) -> str:
    """Return the words for a birth: of NaN or Inf, and whether it arose from Inf."""
    return say("is_born_of_inf" if given is Badness.INF else "is_born", word=WORDS[state])


def heading(births: Sequence[Finding]) -> str:
    """Return the heading of a report: in how many places NaN or Inf begins, and where first."""
    first = births[0]
    return say("begins_at", places=plural(len(births), "place"), first=repr(first.name) + at_line(first.source))


def given(state: Badness) -> str:
    """The words for the gradient that an operation received."""
    return WORDS.get(state) or say("finite_gradient")


def scaled(scales: Sequence[float | None]) -> list[str]:
    """The fact on the factors by which the loss was scaled before backward; empty if none is unknown or above 1."""
    large = [scale for scale in scales if scale is None or abs(scale) > 1]
    numbers = say("unknown_number") if None in large else ", ".join(f"{scale:.6g}" for scale in large)
    return [say("scaled", scales=numbers)] if large else []


def at_line(source: Source | None) -> str:
    """The place as `` (file:line)``, or an empty string."""
    return "" if source is None else f" ({place(source.file, source.line)})"


def see_inside(path: str) -> str:
    """Return what to type to see the lines inside a module."""
    return say("see_inside", selection=repr(f"{path}:*" if path else "**:*"))
