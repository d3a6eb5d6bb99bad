"""The texts of a check: a sentence for each remark about a call, and the texts of findings and of the heading."""

from __future__ import annotations

from collections.abc import Sequence

from backprobe.check.locate_error import Element, Wrong
from backprobe.check.second_derivative import OF_OUTPUT
from backprobe.findings.phrasing import listed, plural, shorten
from backprobe.record import reasons
from backprobe.record.reasons import Reason

SENTENCES = {
    # reasons why a call was not repeated, and therefore not checked
    "held": "what it differentiates is held by it, not passed as an argument",
    "computes_derivatives": "it computes derivatives, and derivatives of those are not checked",
    "derives_again": "it may differentiate derivatives again, and third derivatives are not checked",
    "too_many": "those of {count} of the calls that it differentiates were not checked: there are too many of them",
    "inside_transform": "it runs inside a transform of torch.func",
    "traced": (
        "it runs inside a transformation, where values have no numbers; the call of that transformation is checked as "
        "a whole"
    ),
    "distributed": "it communicates with other processes, which would not expect it to do so again",
    "may_change_arguments": "{name} may change its arguments",
    "may_change_object": "it belongs to an object of type {kind}, and calling it again might change that object",
    "method_of_object": "it is a method of an object of type {kind}, and calling it again might change that object",
    "object_argument": (
        "one of its arguments is an object of type {kind}, and calling it again might change that object"
    ),
    "not_followed": "it is your function but could not be followed, and calling it again might do more than compute",
    "initialises_parameters": "it has parameters that this call initialises",
    "layer_not_built": "it is a layer that has no Variables yet",
    "bound_module": "it is a module bound to variables that are not among its arguments",
    "layout": "an argument is a tensor of layout {layout}",
    "random": "it draws random numbers, and TensorFlow would draw others each time it is called",
    "writes_variable": "it writes to a Variable, and would do so each time it is called",
    # reasons found when a call was repeated, because of which it was not checked
    "raises": "called again on copies, it raises {error}",
    "other_outputs": "called again on copies, it gives other outputs",
    "varies": "it gives another result each time it is called",
    "no_elements": "its output has no elements",
    "not_finite": "its output is not finite",
    "kink": "it is at a kink: one-sided differences disagree",
    "no_convergence": "finite differences of it do not converge",
    "backward_raises": "its backward pass raises {error}",
    # parts of a call that were not checked, or only coarsely
    "captured": "derivatives with respect to variables captured by closures were not checked",
    "derives": "it differentiates itself: only how its result changes was checked, not whether that is the derivative",
    "derives_off": (
        "it differentiates itself, and its gradient{wrt} is not the derivative of what it computes{size}: "
        "a backward in it may be written by hand, or constant by definition"
    ),
    "random_restored": "it is random: the random state was restored before each repetition",
    "raises_in_double": "in double precision it raises {error}, so it was checked in its own precision",
    "other_outputs_in_double": "in double precision it gives other outputs, so it was checked in its own precision",
    "outputs_at_kink": "{count} of its {of} outputs are at a kink, where one-sided differences disagree",
    "outputs_too_large": "{count} of its {of} outputs are so large that changes are lost in rounding",
    "outputs_unsettled": "finite differences of {count} of its {of} outputs do not converge",
    "input_unsettled": "finite differences{wrt} do not converge",
    "gradient_not_finite": "elements of its gradient{wrt} are not finite ({count}), nor do differences converge there",
    "coarse": "a relative error below {size} of its gradient{wrt} would not have shown",
    "spread": (
        "its gradient{wrt} is off along a random direction (relative error {size}), but no element of it by more than "
        "noise"
    ),
    "symmetric_only": "its derivative is right for a matrix that stays symmetric, and was not checked for others",
    "not_derivative": (
        "its gradient{wrt} is not its derivative{size}, but nothing in it was written by hand: what is detached, "
        "padded, clipped or read from one triangle has such a gradient by definition"
    ),
    "may_have_rule": (
        "its gradient{wrt} is not its derivative{size}: a rule that it is given may be wrong, as of a function that is "
        "not linear, or something in it is detached"
    ),
    # for calls that are not checked, because backprobe does not follow them or cannot see their writes
    "unseen_custom": (
        "it was called where backprobe follows no calls, as in an iterator or a context manager of a class"
    ),
    "unseen_own": (
        "not checked, run where backprobe sees no call of them: in an iterator or a context manager of a class, by a "
        "loop such as scan, or the like"
    ),
    "hidden_write": (
        "it writes through .data, which autograd does not see: a derivative that needs the values from before is not "
        "checked"
    ),
    "hooked": "it has hooks, and what they do to values and gradients is not checked",
    "skipped": "skipped as asked, {calls}",
    # the function of the outputs whose gradient was compared
    "of_sum": " (of the sum of its outputs)",
    "of_weights": " (of its outputs with random weights)",
    # the appearance of a wrong gradient
    "not_finite_elements": "{count} of its elements are not finite, although differences are",
    "zero": "it is zero, but the outputs change with this input",
    "opposite": "it has the opposite sign",
    "multiple": "it is {ratio} times what it should be",
    "one_sign": "it is wrong exactly where the input is {sign}",
    "nothing_moves": "the outputs do not change with this input at all",
    "transpose": "it is the transpose of what it should be",
    "not_transpose": "what runs backward is not the transpose of its derivative in forward mode",
    "not_transpose_of_right": (
        "its derivative in forward mode is right, and what runs backward is not the transpose of that"
    ),
    "reordered": "its elements are right, but in the wrong order",
}
"""The sentence for each code. ``{wrt}`` stands for the input that the remark is about."""

INTENDED = "correct it; if it is intended (a straight-through estimator, a reversed gradient): bp.check(f, skip=[{}])"
MOST = 6
NAMED = 2  # how many places a heading names


def sentence(reason: Reason) -> str:
    """Return the sentence of a reason.

    >>> sentence(Reason("layout", {"layout": "torch.sparse_coo"}))
    'an argument is a tensor of layout torch.sparse_coo'
    """
    return reasons.render(reason.code, SENTENCES[reason.code], reason.fields)


def remark(about: tuple[str, Reason], count: int, said: str = "") -> str:
    """Return a sentence about a place: the text ``said``, the sentence of the reason, and how often if repeated."""
    where, reason = about
    return f"{where}: {said}{sentence(reason)}" + (f" ({count} times)" if count > 1 else "")


def heading(
    of: str,
    *,
    wrong: int,
    checked: int,
    unchecked: int,
    own: int,
    error: float,
    is_partial: bool,
    unjudged: Sequence[str],
) -> str:
    """Return the result of a check in one sentence.

    ``own`` is the number of framework calls whose gradient is not the derivative. ``unjudged`` are the places that were
    not fully checked.
    """
    counts = [f"{plural(checked, 'call')} checked", f"{unchecked} not checked" if unchecked else ""]
    largest = f"largest error of the right ones {error:.1e} along random directions"
    counts = [*counts, largest] if checked else counts[1:]
    right = f"taken by itself, each call {'that was checked ' * is_partial}has the right derivative"
    right += f", except {own} of the framework's own" if own else ""
    said = right if checked else "nothing was checked"
    if wrong:
        said = f"{plural(wrong, 'derivative')} {'are' if wrong > 1 else 'is'} wrong"
    said = f"{of}: {said}" + (f" ({', '.join(filter(None, counts))})" if any(counts) else "")
    places = list(dict.fromkeys(filter(None, unjudged)))
    return said + (f"; not judged: {'; '.join(places[:NAMED])}" + _more(places) if places and checked else "")


def _more(places: Sequence[str]) -> str:
    return f" and {len(places) - NAMED} more" if len(places) > NAMED else ""


def wrong_derivative(call: str, input: str, error: float, *, is_second: bool = False) -> str:
    wrt = input if input.startswith(OF_OUTPUT) else f"its input `{input}`"
    of = f" with respect to {wrt}" if input else ""
    return f"the {'second ' * is_second}derivative of `{shorten(call)}`{of} is wrong{relative_error(error)}"


def facts(wrong: Wrong, like: str | None) -> list[str]:
    """The observations about a wrong gradient; ``like`` is the input, as written, whose gradient it equals."""
    found = [": there ".join(map(sentence, wrong.looks))] if wrong.looks else []
    if like is not None:
        found.append(f"it is the gradient that {like} should get")
    if wrong.outputs:
        found.append(f"only what comes through output {' and '.join(map(str, wrong.outputs))} is wrong")
    shown = "; ".join(map(_element, wrong.off))
    if shown and wrong.size > 1:
        among = f"{wrong.seen} elements" + (f" looked at, of {wrong.size}," if wrong.seen < wrong.size else "")
        shown = f"{wrong.count} of {among} {'is' if wrong.count == 1 else 'are'} wrong: {shown}"
    if shown and any(element.numeric == element.numeric for element in wrong.off):
        shown += sentence(Reason("of_sum" if wrong.is_of_sum else "of_weights"))
    return [*found, *filter(None, [shown])]


def _element(element: Element) -> str:
    index = f"[{', '.join(map(str, element.index))}]: " if element.index else ""
    differences = "" if element.numeric != element.numeric else f", differences give {element.numeric:.6g}"
    return f"{index}gradient {element.analytic:.6g}{differences}"


def relative_error(error: float) -> str:
    if error == float("inf"):
        return ""
    return f" (relative error {error:.0%})" if error >= 0.01 else f" (relative error {error:.1e})"


def operations(names: Sequence[str]) -> str:
    """Return the names of framework operations as text, each once, and the number of the operations."""
    return f"{listed(list(dict.fromkeys(names)), MOST)} ({plural(len(names), 'operation')} of the framework)"
