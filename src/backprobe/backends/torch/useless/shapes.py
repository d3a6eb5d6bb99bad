"""Finds accidental broadcasting, such as [N] - [N, 1], which gives [N, N].

If the program itself inserted, kept or moved a dimension of size 1, broadcasting is intended. If the value already had
the dimension, for example from a layer with one output, and all elements of the result are reduced to one number, the
broadcasting is an accident: each element was meant to be combined with only one other element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import ref

from torch import Tensor

from backprobe.backends.useless.shapes import Shape, Stretched, meet_elsewhere, use_beside


class KnownShape(NamedTuple):
    """A tensor, and what is known of how it got its shape."""

    tensor: ref[Tensor]
    is_asked: bool  # did the program itself insert or keep dimensions of size 1, or was a broadcast noted already?
    rank: int  # the number of dimensions before the tensor was expanded
    stretched: tuple[Stretched, ...] = ()  # broadcast operations from which the tensor is computed elementwise


class Shapes:
    """The tensors of one iteration, with what is known of their shapes."""

    def __init__(self) -> None:
        self.known: dict[int, KnownShape] = {}  # the key is the id of the tensor
        self.found: list[Stretched] = []

    def look(self, is_pointwise: bool, given: Sequence[Tensor], made: Tensor, number: int) -> None:
        """Register a tensor that an operation has computed from other tensors."""
        own = [self._of(one) for one in given]
        asked, rank = is_pointwise and any(one.is_asked for one in own if one), made.ndim
        if len(given) == 1 and not is_pointwise:
            asked, rank = _of_one(given[0], made, own[0])
        new = self._stretched(is_pointwise, given, own, made, number)
        before = tuple({each: None for one in own if one for each in one.stretched})
        if any(known is not None and known.stretched for known in own):
            beside = zip(given, own, strict=True)
            use_beside([(_true_shape(one), known.stretched if known else ()) for one, known in beside])
        is_alike = is_pointwise or (len(given) == 1 and made.numel() == given[0].numel())
        if not is_alike and made.numel() > 1:
            for each in before:
                each.is_used = True
        if made.numel() == 1:
            for each in (*before, *new):
                each.is_reduced = True
        kept = (*before, *new) if made.numel() > 1 and (is_alike or new) else ()
        if asked or kept or rank != made.ndim:
            self.known[id(made)] = KnownShape(ref(made), asked or bool(new), rank, kept)

    def _of(self, tensor: Tensor) -> KnownShape | None:
        found = self.known.get(id(tensor))
        return found if found is not None and found.tensor() is tensor else None

    def _stretched(
        self, is_pointwise: bool, given: Sequence[Tensor], own: Sequence[KnownShape | None], made: Tensor, number: int
    ) -> tuple[Stretched, ...]:
        # Return the operation if it broadcasts two operands although the program inserted no dimension.
        pairs = [(one, known) for one, known in zip(given, own, strict=True) if one.numel() > 1]
        if not is_pointwise:  # a loss function has already expanded its operands to one shape
            pairs = pairs[:2] if pairs and all(one.shape == pairs[0][0].shape for one, _ in pairs[:2]) else []
        if len(pairs) != 2 or any(known is not None and known.is_asked for _, known in pairs):
            return ()
        result = made.shape if is_pointwise else pairs[0][0].shape
        shapes = [_true_shape(one) for one, _ in pairs]
        ranks = [known.rank if known is not None else one.ndim for one, known in pairs]
        is_float = any(one.is_floating_point() for one, _ in pairs)
        if not is_float or ranks[0] == ranks[1] or not meet_elsewhere(shapes, len(result)):
            return ()
        spelled = [shape[len(shape) - rank :] for shape, rank in zip(shapes, ranks, strict=True)]
        self.found.append(found := Stretched(spelled, tuple(result), number))
        return (found,)


def _of_one(given: Tensor, made: Tensor, known: KnownShape | None) -> tuple[bool, int]:
    # For a tensor made from one other tensor, return whether the program inserted or kept its dimensions of size 1, and
    # its rank before expansion.
    is_same, ones = made.numel() == given.numel(), made.shape.count(1)
    was_asked, rank = (known.is_asked, known.rank) if known else (False, given.ndim)
    is_view = made._is_view() or made.untyped_storage().data_ptr() == given.untyped_storage().data_ptr()
    if made.numel() > given.numel() and is_view:
        return was_asked, rank  # the tensor was expanded
    if not ones:
        return False, made.ndim
    is_inserted = is_same and (ones > given.shape.count(1) or (made.ndim == given.ndim and made.shape != given.shape))
    is_kept = made.ndim == given.ndim and made.numel() < given.numel() and not is_view
    return is_inserted or is_kept or (was_asked and made.ndim == given.ndim), made.ndim


def _true_shape(tensor: Tensor) -> Shape:
    # Return the tensor's shape before it was expanded.
    strides: Any = tensor.stride()
    return tuple([1 if stride == 0 else size for size, stride in zip(tensor.shape, strides, strict=True)])
