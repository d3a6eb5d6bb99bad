"""By which numbers losses were multiplied before ``backward()`` ran from them, as where ``GradScaler`` does it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from backprobe.backends.torch.capture import Capture, version
from backprobe.backends.torch.graph import Key, key
from backprobe.record.reasons import Reason

DIVISION = "DivBackward0"
SCALING = ("MulBackward0", DIVISION)

Multiple = tuple[Key, float | None]
"""A scalar as a multiple of another: the edge of that, and the factor where it is known."""

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
    (follower, output), other = node.next_functions[followed[0]], ("_raw_saved_other", "_raw_saved_self")[followed[0]]
    number = _number(getattr(node, other, None))
    if node.name() == DIVISION and number is not None:
        number = 1 / number if number else None
    return (follower, output), number  # type: ignore[return-value]


def _number(saved: object) -> float | None:
    """A single number that a node holds. Not where it has run already, nor where asking would run the user's hooks.

    A block around a model hears of backward only when it has come to the first value that is recorded.
    """
    held = getattr(saved, "data", None) if getattr(saved, "unpack_hook", None) is None else None
    return _single(held) if held is not None and held.device.type == "cpu" else None


def _single(tensor: Tensor | None) -> float | None:
    return float(tensor) if tensor is not None and tensor.numel() == 1 and not tensor.is_complex() else None


def scales(
    begun: Sequence[tuple[Tensor, Multiple]], captures: Sequence[Capture], recorded: Mapping[Key, Sequence[int]],
    derivatives: Mapping[int, Tensor],
) -> Scales:  # fmt: skip
    """The numbers by which recorded values were multiplied; each backward pass began at one of these tensors.

    ``derivatives`` are those of what backward began at: a number that makes the product too large is known from them.
    """
    found: dict[int, Reason] = {}
    numbers: dict[float | None, None] = {}
    for root, (part, number) in begun:
        known = recorded.get(part, ())[:1]
        for at in known:
            if captures[at].tensor.is_leaf:
                continue
            told = (_ratio(root, captures[at]), number, _single(derivatives.get(at)))
            ratio = next((one for one in told if one is not None), None)
            if ratio is not None:
                found[at] = Reason("scaled_by", {"number": f"{ratio:.6g}"})
                numbers[ratio] = None
        for at in () if known else recorded.get(key(get_gradient_edge(root)), ())[:1]:
            if number is None or abs(number) > 1:  # a part of a mean, as of accumulated losses, is none that is scaled
                known_number = {} if number is None else {"number": f"{number:.6g}"}
                found[at] = Reason("scaled_unknown" if number is None else "scaled_itself", known_number)
                numbers[number] = None
    return tuple(numbers), tuple(found.items())


def _ratio(root: Tensor, capture: Capture) -> float | None:
    """How many times a scalar another one is, where their numbers tell."""
    part = capture.alias
    if part is None or root.numel() != 1 or part.numel() != 1 or root.is_complex() or part.is_complex():
        return None
    ratio = float(root.detach()) / float(part) if float(part) else math.nan
    return ratio if math.isfinite(ratio) and version(capture.tensor) == capture.version else None
