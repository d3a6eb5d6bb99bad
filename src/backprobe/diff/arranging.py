"""Arrangements: how an array of the second recording is brought into the axis order of the first before comparing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Shape = tuple[int, ...]
MOST_AXES = 5  # of an array whose axes are tried in all orders


@dataclass(frozen=True)
class Arrangement:
    """A reshape to ``before``, then a permutation of the axes by ``axes``, then a reshape to ``after``.

    Steps that are None are skipped.

    >>> import numpy
    >>> turned = Arrangement(before=(2, 6), axes=(1, 0))
    >>> turned.apply(numpy.zeros((2, 3, 2))).shape, turned.undone(numpy.zeros((6, 2)), (2, 3, 2)).shape
    ((6, 2), (2, 3, 2))
    """

    before: Shape | None = None
    axes: tuple[int, ...] | None = None
    after: Shape | None = None

    def apply(self, array: Any) -> Any:
        """Bring an array of the second recording into the layout of the first."""
        array = array if self.before is None else array.reshape(self.before)
        array = array if self.axes is None else array.transpose(self.axes)
        return array if self.after is None else array.reshape(self.after)

    def undone(self, array: Any, shape: Shape) -> Any:
        """Bring an array of the first recording into the layout of the second, where its shape is ``shape``."""
        if self.axes is None:
            return array.reshape(shape)
        before = shape if self.before is None else self.before
        array = array.reshape([before[axis] for axis in self.axes])
        return array.transpose([self.axes.index(axis) for axis in range(len(self.axes))]).reshape(shape)

    def shape_of(self, shape: Shape) -> Shape:
        """The shape of an arranged array, given the shape before."""
        before = shape if self.before is None else self.before
        turned = before if self.axes is None else tuple(before[axis] for axis in self.axes)
        return turned if self.after is None else self.after


AS_IT_IS = Arrangement()


def fitting(shape: Shape, target: Shape, each: Sequence[Arrangement]) -> list[Arrangement]:
    """Return those arrangements that change an array from one shape to another."""
    return [one for one in each if one.shape_of(shape) == target]


def of_weights(shape: Shape, target: Shape, turned: tuple[bool, bool]) -> list[Arrangement]:
    """Return the possible arrangements of a parameter, the likeliest first.

    ``turned`` says for each recording whether the parameter's axes are ordered (input, output).
    """
    if turned[0] == turned[1]:
        is_other = _merges(shape, target) or _without_ones(shape) == _without_ones(target)
        return fitting(shape, target, [AS_IT_IS, *([Arrangement(after=target)] * is_other)])
    found = (
        list(_turned(shape, target)) if turned[1] else [_inverse(one, shape, target) for one in _turned(target, shape)]
    )
    return fitting(shape, target, [*found, AS_IT_IS])


def _turned(shape: Shape, target: Shape) -> Iterator[Arrangement]:
    # Change (window, input, output) to (output, input, window). A feature axis may consist of several axes.
    if len(shape) < 2 or math.prod(shape) != math.prod(target):
        return
    if len(shape) == len(target):
        yield Arrangement(axes=(len(shape) - 1, len(shape) - 2, *range(len(shape) - 2)))
        if len(shape) > 2 and target[1] == 1 < shape[-2]:  # a depthwise convolution: one window for each channel
            yield Arrangement(axes=(len(shape) - 2, len(shape) - 1, *range(len(shape) - 2)), after=target)
    elif len(target) == 2:
        for end in range(1, len(shape)):
            if math.prod(shape[:end]) == target[1]:
                yield Arrangement(before=(target[1], target[0]), axes=(1, 0))


def of_flattened(shape: Shape, target: Shape, turned: tuple[bool, bool], maps: Iterable[Shape]) -> list[Arrangement]:
    """Return arrangements for the weight of a layer whose input is a flattened feature map.

    The recording with (input, output) weights flattens maps with channels last, the other one with channels first.
    ``maps`` are shapes of feature maps, with channels first.

    >>> of_flattened((8, 5), (5, 8), (False, True), [(2, 4)])
    [Arrangement(before=(4, 2, 5), axes=(2, 1, 0), after=(5, 8))]
    """
    if len(shape) != 2 or shape[::-1] != target or turned[0] == turned[1]:
        return []
    found = []
    for channels, *window in (one for one in maps if math.prod(one) == shape[not turned[1]]):
        before = (*window, channels, shape[1]) if turned[1] else (shape[0], channels, *window)
        last = len(before) - 1
        axes = (last, last - 1, *range(last - 1)) if turned[1] else (*range(2, last + 1), 1, 0)
        found.append(Arrangement(before, axes, target))
    return found


def _inverse(one: Arrangement, shape: Shape, target: Shape) -> Arrangement:
    # Return the arrangement that reverses another one, and gives the shape ``target``.
    axes, before = one.axes or (), one.before or target
    middle = tuple(before[axis] for axis in axes)
    return Arrangement(
        None if middle == shape else middle,
        tuple(axes.index(axis) for axis in range(len(axes))),
        None if before == target else target,
    )


def of_values(shape: Shape, target: Shape, channels_last: tuple[bool, bool]) -> list[Arrangement]:
    """Return the possible arrangements of a value, the likeliest first.

    ``channels_last`` says for each recording whether channels are the last axis.
    """
    each = [AS_IT_IS]
    if channels_last[0] != channels_last[1] and len(shape) > 2:
        rank = len(shape)
        for first in (1, 0):  # with and without a batch axis before the channels
            order = (*range(first), rank - 1, *range(first, rank - 1))
            back = tuple(order.index(axis) for axis in range(rank))
            each.append(Arrangement(axes=order if channels_last[1] else back))
    if _merges(shape, target):
        each.append(Arrangement(after=target))
    return fitting(shape, target, each)


def of_axes(shape: Shape, target: Shape) -> Iterator[Arrangement]:
    """Yield arrangements with the target's shape that reshape the array, or change the order of at most ``MOST_AXES``
    axes.

    Axes are first split, such as into heads and their features, until both shapes have as many axes as the longer one,
    and then until they have one more.

    >>> [one.axes for one in of_axes((2, 5, 3), (2, 3, 5))], [one.axes for one in of_axes((3, 3), (3, 3))]
    ([None, (0, 2, 1)], [(1, 0)])
    >>> [(one.before, one.axes) for one in of_axes((5, 4), (2, 5, 2))]
    [(None, None), ((5, 2, 2), (1, 0, 2)), ((5, 2, 2), (2, 0, 1))]
    """
    if math.prod(shape) != math.prod(target):
        return
    if shape != target:
        yield Arrangement(after=target)
    fewest = max(len(shape), len(target))
    for rank in range(fewest, min(fewest + 1, MOST_AXES) + 1):
        for one, other in itertools.product(_split(shape, rank), _split(target, rank)):
            if sorted(one) == sorted(other):
                before, after = None if one == shape else one, None if other == target else other
                yield from (Arrangement(before, axes, after and target) for axes in _orders(one, other))


def _split(shape: Shape, rank: int) -> list[Shape]:
    # Return the shapes of ``rank`` axes in which some axes of a shape are split.
    found = [shape]
    for _ in range(rank - len(shape)):
        each = [
            (*one[:at], size // part, part, *one[at + 1 :])
            for one in found
            for at, size in enumerate(one)
            for part in range(2, size // 2 + 1)
            if size % part == 0
        ]
        found = list(dict.fromkeys(each))
    return found


def _orders(shape: Shape, target: Shape) -> Iterator[tuple[int, ...]]:
    # Yield each order of axes, except the present one, that changes an array from one shape to another.
    axes = tuple(range(len(shape)))
    return (one for one in itertools.permutations(axes) if one != axes and tuple(shape[at] for at in one) == target)


def _without_ones(shape: Shape) -> list[int]:
    return [size for size in shape if size != 1]


def _merges(shape: Shape, target: Shape) -> bool:
    # Is the last axis of one array split into two axes in the other, such as heads and their features, or is one array
    # flat?
    short, long = sorted((shape, target), key=len)
    if math.prod(short) != math.prod(long):
        return False
    if len(short) == 1:
        return True
    return len(long) == len(short) + 1 and long[: len(short) - 1] == short[:-1]
