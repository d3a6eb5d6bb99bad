"""By which numbers losses were multiplied before ``backward()`` ran from them, as where ``GradScaler`` does it."""

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
"""The codes of the notes on what was scaled, and on the product where that has no name."""

Multiple = tuple[Key, float | None]
"""A scalar as a multiple of another: the edge of that, and the factor where it is known."""

Begun = tuple[Tensor, Multiple, bool]
"""What a backward pass began at, and whether that had a name then."""

Scales = tuple[tuple[float | None, ...], tuple[tuple[int, Reason], ...]]
"""The different numbers, and a note for each capture that one of them was met at."""


def multiple(root: Tensor) -> Multiple | None:
    """What a tensor is a multiple of, while its graph is there. None where it is a product of anything else."""
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
    # A single number that a node holds. Not where it has run already, nor where asking would run the user's hooks.
    #
    # A block around a model hears of backward only when it has come to the first value that is recorded.
    (held,) = data(node, name) or (None,)
    return _single(held) if held is not None and held.device.type == "cpu" else None


def _single(tensor: Tensor | None) -> float | None:
    return float(tensor) if tensor is not None and tensor.numel() == 1 and not tensor.is_complex() else None


class Scaled:
    """What ``GradScaler`` has scaled while a block was open, with its scale as it was then."""

    def __init__(self) -> None:
        self.outputs: dict[int, tuple[ref[Tensor], Tensor]] = {}  # by identity
        self.listening = ExitStack()

    def listen(self) -> None:
        self.listening.enter_context(listening(torch.amp.GradScaler, "scale", self._scaling))

    def stop(self) -> None:
        self.listening.close()
        self.outputs.clear()

    def _scaling(self, following: Callable[..., Any], scaler: Any, /, *args: Any, **kwargs: Any) -> Any:
        scaled = following(scaler, *args, **kwargs)
        scale = getattr(scaler, "_scale", None)  # None for one that is switched off
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
    """The numbers by which recorded values were multiplied; each backward pass began at one of these tensors.

    ``derivatives`` are those of what backward began at: a number that makes the product too large is known from them.
    A loss that is divided, as by the number of parts that it is accumulated from, or is made smaller, is not a scaled
    one: nothing is noted. Nor is it where the product has a name of its own: the gradients are those of that.
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
    # How many times a scalar another one is, where their numbers tell.
    part = capture.alias
    if part is None or root.numel() != 1 or part.numel() != 1 or root.is_complex() or part.is_complex():
        return None
    ratio = float(root.detach()) / float(part) if float(part) else math.nan
    return ratio if math.isfinite(ratio) and version(capture.tensor) == capture.version else None
