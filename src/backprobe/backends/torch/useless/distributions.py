"""Finds probabilities that are used as logits, and numbers that are wrongly used as log-probabilities.

It compares numbers, and ignores the names of operations. An operation counts as softmax or log-softmax if it returns
the same numbers, and as a negative log-likelihood if it returns the picked elements with reversed sign.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from backprobe.backends.useless.distributions import MOST, is_rarely, near


class Distributions:
    """Findings about distributions in one iteration. The keys are the numbers of graph nodes."""

    def __init__(self) -> None:
        self.twice: dict[int, str] = {}  # nodes that apply softmax to a distribution
        self.unnormalised: list[int] = []

    def look(self, given: Sequence[Tensor], made: Tensor, number: int) -> None:
        """Examine a tensor that an operation, which is not elementwise, has just computed from other tensors."""
        if not given or not 1 < given[0].numel() <= MOST or not _is_computed(given[0]):
            return
        first = given[0]
        if len(given) == 1 and made.shape == first.shape and made.is_floating_point():
            if made.data_ptr() != first.data_ptr() and (applied := _normalised(first, made)):
                self.twice[number] = applied
        elif len(given) in (2, 3) and _picks(first, given[1], given[2:], made):
            sums = first.detach().double().logsumexp(1)
            far = _near(first)
            if is_rarely(float((sums.abs() <= 10 * far).double().mean()), far):
                self.unnormalised.append(number)


def _is_computed(tensor: Tensor) -> bool:
    # Is the tensor differentiated, and not a leaf? A leaf may by chance start as a distribution, such as 1/N
    # everywhere.
    return tensor.is_floating_point() and tensor.requires_grad and not tensor.is_leaf


def _near(tensor: Tensor) -> float:
    return near(tensor.element_size())


def _normalised(given: Tensor, made: Tensor) -> str:
    # Return "softmax" or "log-softmax" if this function was applied along a dimension along which the input is a
    # distribution, else "".
    far = _near(given)
    x = given.detach().double()
    if bool((x < 0).any()) or bool((x > 1 + far).any()):
        return ""
    for axis in range(x.ndim):
        if x.shape[axis] < 2 or not bool(((x.sum(axis) - 1).abs() <= far).all()):
            continue
        y = made.detach().double()
        for name, wanted in (("softmax", x.softmax(axis)), ("log-softmax", x.log_softmax(axis))):
            if bool(((y - wanted).abs() <= 10 * far * wanted.abs() + 1e-12).all()):
                return name
    return ""


def _picks(given: Tensor, at: Tensor, others: Sequence[Tensor], made: Tensor) -> bool:
    # Is the result the elements picked along the second dimension with reversed sign, or their mean or sum, possibly
    # weighted by class?
    is_shaped = given.ndim >= 2 and given.shape[:1] + given.shape[2:] == at.shape and at.dtype == torch.int64
    if not is_shaped or (made.ndim and made.shape != at.shape):
        return False
    classes = given.shape[1]
    if any(one.shape != (classes,) for one in others):
        return False
    there = (at >= 0) & (at < classes)
    index = at.clamp(0, classes - 1)
    weights = others[0].detach().double()[index] if others else torch.ones_like(at, dtype=torch.float64)
    picked = -given.detach().double().gather(1, index.unsqueeze(1)).squeeze(1) * weights * there
    total = (weights * there).sum()
    wanted = [picked] if made.ndim else [picked.sum(), picked.sum() / total]
    y, far = made.detach().double(), 10 * _near(given)
    return any(bool(((y - one).abs() <= far * one.abs() + far * 1e-3).all()) for one in wanted)
