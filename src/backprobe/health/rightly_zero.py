"""Gradients that are zero for a good reason, so that they are no problem of training, or only a temporary one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backprobe.findings.phrasing import quoted
from backprobe.health.record_arrays import RecordArrays
from backprobe.health.unrecorded_factors import are_added, calls_of, may_begin_at_zero
from backprobe.record.entries import GradStatus
from backprobe.record.graph import reached
from backprobe.record.names import strip

DIFFERENTIATING = ("grad", "gradient", "batch_jacobian", "jacobian", "vjp")
SELECTING = ("where", "where_v2", "select", "select_n", "masked_fill", "SelectV2")
COLLECTING = ("tuple", "list", "zip", "type")  # functions that only collect the selected values, one after the other
BIASES = ("bias", "beta")
FROM_ZERO = "{} is zero and has a gradient itself, as where training begins at zero (LoRA, zero-initialised layers)"
CANCEL = "what comes from {} sums to zero, as for a constant that is added on both sides of a difference"
MAY = (
    "{} may have a factor that begins at zero and is trained, as in LoRA and zero-initialised layers: what would show "
    "it is not recorded, or was overwritten"
)
SECOND = "{} is a gradient that the program has taken, and does not change with it"
TAKEN = (
    "it is itself a gradient that the program has taken, and {} does not change with it, as with the sign that an "
    "attack takes of one"
)
ROUND = (
    "it leads to {} by operations that are not recorded, past {}: as where the program takes a gradient of the model, "
    "and the sign of that"
)
EMPTY = "{} has no element: nothing was given to it in this step, as by a router to an expert"
BESIDE = "{} beside it has one, as where a router sends nothing to some of its experts"
AROUND = (
    "it leads to {} by operations that are not recorded, and not through {}, which uses it: as where a gradient is "
    "differentiated (a gradient penalty), which need not change with it"
)
ROUNDING = 1e-5
NOT_SELECTED = "{} selects no element of it"


def rightly_zero(arrays: RecordArrays, at: int, consumers: Sequence[int]) -> str:
    """Return the reason why a zero gradient is no problem, although its consumers have nonzero gradients; else "".

    ``consumers`` are the consumers that have a gradient.
    """
    if empty := _empty(arrays, at, consumers):
        return EMPTY.format(_names(arrays, empty))
    given = [one for one in consumers if arrays.grads[one].any()]
    if not given:
        return ""
    if _is_gradient(arrays, at):
        return TAKEN.format(_names(arrays, given))
    factors = [_zero_factor(arrays, at, one) for one in given]
    if None not in factors:
        return FROM_ZERO.format(_names(arrays, factors))
    if _cancel(arrays, at, given):
        return CANCEL.format(_names(arrays, given))
    if all(_is_gradient(arrays, one) for one in given):
        return SECOND.format(_names(arrays, given))
    if all(_is_not_selected(arrays, at, one) for one in given):
        return NOT_SELECTED.format(_names(arrays, given))
    if unconnected := _unconnected(arrays, at, given):
        return AROUND.format(_names(arrays, given), _names(arrays, unconnected))
    if past := _round(arrays, at, given):
        return ROUND.format(_names(arrays, given), _names(arrays, past))
    if beside := _beside(arrays, at, given):
        return BESIDE.format(_names(arrays, beside))
    unsure = [one for one, factor in zip(given, factors, strict=True) if factor is None]
    if all(may_begin_at_zero(arrays, at, one) for one in unsure):
        return MAY.format(_names(arrays, unsure))
    return ""


def _names(arrays: RecordArrays, places: Sequence[Any]) -> str:
    return quoted([arrays.entries[one].name for one in dict.fromkeys(places)], 3)


def _zero_factor(arrays: RecordArrays, at: int, consumer: int) -> int | None:
    # Return the other factor of a consumer if it is zero and trained. The gradient of a product is then zero only for
    # now.
    is_zero = _is_zero(arrays.values[consumer])
    for other in arrays.graph.inputs[consumer]:
        if other == at or not arrays.has_gradient(other) or _is_added(arrays, other, at, consumer):
            continue
        if (_is_zero(arrays.values[other]) or (is_zero and arrays.values[other] is None)) and _is_trained(
            arrays, other
        ):
            return other
    return None


def _is_added(arrays: RecordArrays, at: int, other: int, consumer: int) -> bool:
    # Is the entry added to the other input, rather than multiplied? Its gradient then equals that of the consumer.
    if arrays.entries[at].name.rpartition(".")[2] in BIASES or are_added(arrays, at, other, consumer):
        return True
    shape = arrays.entries[at].shape
    back = None if shape is None else _as_added(arrays.grads[consumer], shape)
    return back is not None and bool(abs(back - arrays.grads[at]).sum() <= ROUNDING * abs(back).sum())


def _is_zero(value: Any) -> bool:
    return value is not None and not value.any()


def _is_trained(arrays: RecordArrays, at: int) -> bool:
    # Is the entry a leaf with a gradient, such as a parameter or an argument, or computed from one?
    before = reached([at], lambda one: arrays.graph.inputs[one])
    return any(arrays.graph.begins(one) and arrays.has_gradient(one) for one in before)


def _cancel(arrays: RecordArrays, at: int, consumers: Sequence[int]) -> bool:
    # Is the entry added in each consumer, and do the nonzero gradients from the consumers cancel?
    shape = arrays.entries[at].shape
    if shape is None or any(arrays.values[one] is None for one in consumers):
        return False
    parts = [_as_added(arrays.grads[one], shape) for one in consumers]
    if any(part is None for part in parts):
        return False
    size = sum(abs(part).sum() for part in parts)
    return len(parts) > 1 and bool(size) and bool(abs(sum(parts)).sum() <= ROUNDING * size)


def _as_added(gradient: Any, shape: tuple[int, ...]) -> Any:
    # The gradient of a term that was added with broadcasting; None if the shapes do not fit.
    extra = gradient.ndim - len(shape)
    if extra < 0:
        return None
    summed = gradient.sum(axis=tuple(range(extra)))
    for axis, length in enumerate(shape):
        if length == 1 and summed.shape[axis] != 1:
            summed = summed.sum(axis=axis, keepdims=True)
    return summed if summed.shape == tuple(shape) else None


def _is_gradient(arrays: RecordArrays, at: int) -> bool:
    entry = arrays.entries[at]
    calls = () if entry.source is None else entry.source.calls
    return entry.op in DIFFERENTIATING or any(call.rpartition(".")[2] in DIFFERENTIATING for call in calls)


def _empty(arrays: RecordArrays, at: int, consumers: Sequence[int]) -> list[int]:
    # The consumers of the value, if none of them has a gradient and all of them are empty tensors.
    users = list(arrays.graph.consumers[at])
    return users if not consumers and all(0 in (arrays.entries[one].shape or ()) for one in users) else []


def _round(arrays: RecordArrays, at: int, consumers: Sequence[int]) -> list[int]:
    # If each of ``consumers`` belongs to a later call of a module that was called before, return those other consumers
    # and inputs of the value that also flow into all of ``consumers``, except parameters. Otherwise return none. This
    # happens if the program differentiates a model's gradient: both the next layer and the gradient use the
    # activations.
    if not all(_is_later_call(arrays, one, at) for one in consumers):
        return []
    beside = [one for one in (*arrays.graph.consumers[at], *arrays.graph.inputs[at]) if one not in consumers]
    return [
        one
        for one in beside
        if set(consumers) <= set(arrays.graph.consumers[one]) and one not in arrays.graph.parameters
    ]


def _is_later_call(arrays: RecordArrays, at: int, start: int) -> bool:
    entry = arrays.entries[at]
    calls = [one for one in range(start + 1) if strip(arrays.entries[one].name) == strip(entry.name)]
    return entry.source is None and bool(calls)


def _beside(arrays: RecordArrays, at: int, consumers: Sequence[int]) -> list[int]:
    # Return values with a gradient whose names differ from the value's name only in a number, and that flow into a
    # consumer of the value or into what is computed from it. If the value is no return value, another input of a
    # consumer must contain zeros, which may multiply the value.
    if at not in arrays.graph.numbered:
        return []
    given = {one for each in consumers for one in arrays.graph.inputs[each]}
    others = given - {*arrays.graph.numbered[at]}
    if at not in arrays.graph.results and not any(_has_zeros(arrays, one) for one in others):
        return []
    after = reached(consumers, lambda one: arrays.graph.consumers[one])
    alike = [one for one in arrays.graph.numbered[at] if arrays.has_gradient(one)]
    return [one for one in alike if one not in after and after.intersection(arrays.graph.consumers[one])]


def _unconnected(arrays: RecordArrays, at: int, consumers: Sequence[int]) -> list[int]:
    # Return consumers of the value without a gradient, if the value's own gradient comes only from outputs.
    if not set(consumers) <= set(arrays.record.outputs):
        return []
    return [one for one in arrays.graph.consumers[at] if arrays.entries[one].status is GradStatus.NOT_CONNECTED]


def _has_zeros(arrays: RecordArrays, at: int) -> bool:
    value = arrays.values[at]
    return arrays.has_gradient(at) and value is not None and bool(value.any()) and not value.all()


def _is_not_selected(arrays: RecordArrays, at: int, consumer: int) -> bool:
    entry = arrays.entries[consumer]
    outermost = [call for call in calls_of(entry) if call not in COLLECTING][:1]
    return entry.op in SELECTING or any(call in SELECTING for call in outermost)
