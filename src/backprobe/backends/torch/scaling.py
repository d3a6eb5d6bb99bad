"""Finds the factors by which losses were multiplied before ``backward()`` started from them, for example by
``GradScaler``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from backprobe.backends.patching import listening
from backprobe.backends.torch.capture import Capture, version
from backprobe.backends.torch.graph import Key, key
from backprobe.backends.torch.saved_tensors import data
from backprobe.record.reasons import Reason

DIVISION = "DivBackward0"
SCALING = ("MulBackward0", DIVISION)
BY_HAND, BY_SCALER = ("scaled_by", "scaled_itself"), ("scaled_by_scaler", "scaled_itself_by_scaler")
"""Codes of the note on a recorded value that was scaled, and of the note on the product if only that is recorded."""

Multiple = tuple[Key, float | None]
"""A scalar tensor as a multiple of another one: the gradient edge of the other tensor, and the factor if it is
known.
"""

Begun = tuple[Tensor, Multiple, bool]
"""A tensor at which a backward pass started; the value of which this tensor is a multiple; and whether the tensor had a
name at that time.
"""

Scales = tuple[tuple[float | None, ...], tuple[tuple[int, Reason], ...]]
"""The distinct factors, and notes on the captures that were scaled, or that are the scaled products."""


def multiple(root: Tensor) -> Multiple | None:
    """Find the value that was multiplied or divided by one number without a gradient to give this tensor.

    Return the value's edge and the number, which is None if it is not known. Return None if the tensor was computed
    in another way. Must be called while the tensor's graph exists.
    """
    node = root.grad_fn
    if node is None or node.name() not in SCALING:
        return None
    followed = [at for at, (follower, _) in enumerate(node.next_functions) if follower is not None]
    if len(followed) != 1 or (node.name() == DIVISION and followed != [0]):
        return None
    (follower, output), other = node.next_functions[followed[0]], ("_saved_other", "_saved_self")[followed[0]]
    # ``data`` gives nothing if reading would call hooks of the user, or if the node has run: a block around a model
    # notices backward only when it reaches the first recorded value
    (held,) = data(node, other) or (None,)
    if held is not None and held.numel() != 1:
        return None  # its elements have different factors
    number = _single(held) if held is not None and held.device.type == "cpu" else None
    if node.name() == DIVISION and number is not None:
        number = 1 / number if number else None
    return (follower, output), number  # type: ignore[return-value]


def _single(tensor: Tensor | None) -> float | None:
    return float(tensor) if tensor is not None and tensor.numel() == 1 and not tensor.is_complex() else None


class Scaled:
    """The tensors that ``GradScaler`` has scaled while a block was open, each with the scale at that time."""

    def __init__(self) -> None:
        self.outputs: dict[int, tuple[ref[Tensor], Tensor]] = {}  # by the id of the scaled tensor
        self.listening = ExitStack()

    def listen(self) -> None:
        self.listening.enter_context(listening(torch.amp.GradScaler, "scale", self._scaling))

    def stop(self) -> None:
        self.listening.close()
        self.outputs.clear()

    def _scaling(self, following: Callable[..., Any], scaler: Any, /, *args: Any, **kwargs: Any) -> Any:
        scaled = following(scaler, *args, **kwargs)
        scale = getattr(scaler, "_scale", None)  # None if the scaler is disabled
        if isinstance(scaled, Tensor) and isinstance(scale, Tensor):
            self.outputs[id(scaled)] = ref(scaled), scale.detach().clone()
        return scaled

    def number(self, root: Tensor) -> float | None:
        """Return the scale of a tensor that ``GradScaler`` has scaled; None for any other tensor."""
        held, scale = self.outputs.get(id(root), (None, None))
        return None if held is None or held() is not root else _single(scale)


def scales(
    begun: Sequence[Begun],
    captures: Sequence[Capture],
    recorded: Mapping[Key, Sequence[int]],
    derivatives: Mapping[int, Tensor],
    scaled: Scaled,
) -> Scales:
    """Return the factors by which recorded values were multiplied. Each backward pass started at one of the tensors in
    ``begun``.

    ``derivatives`` are the gradients of the recorded values, by capture. They reveal the factor even if the product
    overflowed. A loss that the program itself divides, for example by the number of accumulated parts, or multiplies by
    a factor of at most 1, gets no note. A value gets no note either if the program multiplies it itself and the product
    has a name, because the recorded gradients are then those of the product.
    """
    found: dict[int, Reason] = {}
    numbers: dict[float | None, None] = {}
    for root, (part, number), is_named in begun:
        scale, known = scaled.number(root), recorded.get(part, ())[:1]
        of_part, itself = BY_HAND if scale is None else BY_SCALER
        for at in known:
            if captures[at].tensor.is_leaf:
                continue
            told = (scale, _ratio(root, captures[at]), number, _single(derivatives.get(at)))
            ratio = next((one for one in told if one is not None), None)
            if ratio is not None:
                numbers[ratio] = None
                if scale is not None or (abs(ratio) > 1 and not is_named):
                    found[at] = Reason(of_part, {"number": f"{ratio:.6g}"})
        for at in () if known else recorded.get(key(get_gradient_edge(root)), ())[:1]:
            number = number if scale is None else scale
            if scale is None and (_is_divided(root) if number is None else abs(number) <= 1):
                continue
            known_number = {} if number is None else {"number": f"{number:.6g}"}
            found[at] = Reason("scaled_unknown" if number is None else itself, known_number)
            numbers[number] = None
    return tuple(numbers), tuple(found.items())


def _is_divided(root: Tensor) -> bool:
    return root.grad_fn is not None and root.grad_fn.name() == DIVISION


def _ratio(root: Tensor, capture: Capture) -> float | None:
    # Return the ratio of two scalars, or None if it cannot be computed from their numbers.
    part = capture.alias
    if part is None or root.numel() != 1 or part.numel() != 1 or root.is_complex() or part.is_complex():
        return None
    ratio = float(root.detach()) / float(part) if float(part) else math.nan
    return ratio if math.isfinite(ratio) and version(capture.tensor) == capture.version else None
