"""The factors by which losses were multiplied before ``backward()`` started from them, as ``GradScaler`` does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.autograd.graph import Node, get_gradient_edge

from backprobe.backends.patching import listening
from backprobe.backends.torch.capture import Capture, version
from backprobe.backends.torch.graph import Key, key
from backprobe.backends.torch.saved_tensors import data
from backprobe.record.reasons import Reason

DIVISION = "DivBackward0"
SCALING = ("MulBackward0", DIVISION)
BY_HAND, BY_SCALER = ("scaled_by", "scaled_itself"), ("scaled_by_scaler", "scaled_itself_by_scaler")
"""Codes of notes on a scaled value, and on the product if it has no name."""

Multiple = tuple[Key, float | None]
"""A scalar as a multiple of another: the edge of the other one, and the factor if known."""

Begun = tuple[Tensor, Multiple, bool]
"""Where a backward pass started, and whether that tensor had a name then."""

Scales = tuple[tuple[float | None, ...], tuple[tuple[int, Reason], ...]]
"""The distinct factors, and a note for each capture at which one was found."""


def multiple(root: Tensor) -> Multiple | None:
    """The value of which a tensor is a multiple, while its graph exists. None if it is any other product."""
    node = root.grad_fn
    if node is None or node.name() not in SCALING:
        return None
    followed = [at for at, (follower, _) in enumerate(node.next_functions) if follower is not None]
    if len(followed) != 1 or (node.name() == DIVISION and followed != [0]):
        return None
    (follower, output), other = node.next_functions[followed[0]], ("_saved_other", "_saved_self")[followed[0]]
    number = _number(node, other)
    if node.name() == DIVISION and number is not None:
        number = 1 / number if number else None
    return (follower, output), number  # type: ignore[return-value]


def _number(node: Node, name: str) -> float | None:
    # The single number that a node holds; None if the node has run already, or if reading would run the user's hooks.
    #
    # A block around a model notices backward only when it reaches the first recorded value.
    (held,) = data(node, name) or (None,)
    return _single(held) if held is not None and held.device.type == "cpu" else None


def _single(tensor: Tensor | None) -> float | None:
    return float(tensor) if tensor is not None and tensor.numel() == 1 and not tensor.is_complex() else None


class Scaled:
    """What ``GradScaler`` has scaled while a block was open, with the scale at that time."""

    def __init__(self) -> None:
        self.outputs: dict[int, tuple[ref[Tensor], Tensor]] = {}  # by id
        self.listening = ExitStack()

    def listen(self) -> None:
        self.listening.enter_context(listening(torch.amp.GradScaler, "scale", self._scaling))

    def stop(self) -> None:
        self.listening.close()
        self.outputs.clear()

    def _scaling(self, following: Callable[..., Any], scaler: Any, /, *args: Any, **kwargs: Any) -> Any:
        scaled = following(scaler, *args, **kwargs)
        scale = getattr(scaler, "_scale", None)  # None if the scaler is switched off
        if isinstance(scaled, Tensor) and isinstance(scale, Tensor):
            self.outputs[id(scaled)] = ref(scaled), scale.detach().clone()
        return scaled

    def number(self, root: Tensor) -> float | None:
        """The scale of a tensor that ``GradScaler`` has scaled; None for any other."""
        held, scale = self.outputs.get(id(root), (None, None))
        return None if held is None or held() is not root else _single(scale)


def scales(
    begun: Sequence[Begun],
    captures: Sequence[Capture],
    recorded: Mapping[Key, Sequence[int]],
    derivatives: Mapping[int, Tensor],
    scaled: Scaled,
) -> Scales:
    """The factors by which recorded values were multiplied. Each backward pass started at one of the tensors in
    ``begun``.

    ``derivatives`` are those at these tensors. They reveal a factor that makes the product overflow. A loss that is
    divided, for example by the number of accumulated parts, or is made smaller, does not count as scaled, so nothing is
    noted. Neither is anything noted if the product has a name, because the gradients are then those of the product.
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
    # The ratio of two scalars, if their numbers show it.
    part = capture.alias
    if part is None or root.numel() != 1 or part.numel() != 1 or root.is_complex() or part.is_complex():
        return None
    ratio = float(root.detach()) / float(part) if float(part) else math.nan
    return ratio if math.isfinite(ratio) and version(capture.tensor) == capture.version else None
