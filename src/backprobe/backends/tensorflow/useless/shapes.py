"""Finds accidental broadcasting, such as [N] - [N, 1], which gives [N, N].

If the program itself inserted or kept a dimension of size 1, broadcasting is intended. If the value already had the
dimension, for example from a layer with one output, and all elements of the result are reduced to one number, the
broadcasting is an accident: each element was meant to be combined with only one other element.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum
from math import prod

from backprobe.backends.tensorflow.private import identity_of, shape_of
from backprobe.backends.tensorflow.useless.outcomes import Elementwise, Operation, is_float
from backprobe.backends.tensorflow.useless.spots import spot
from backprobe.backends.useless.shapes import Shape, Stretched, meet_elsewhere


class StretchedPart(Enum):
    """Does a value that was computed from a broadcast result still have all elements of that result?"""

    ALL = 1  # one element for each element of the result
    REDUCED = 2  # reduced along a dimension


class Shapes:
    """The tensors of one iteration, by number."""

    def __init__(self, elementwise: Elementwise, is_held: Callable[[int], bool]) -> None:
        self.elementwise = elementwise
        self.is_held = is_held  # is the tensor the value of a Variable?
        self.asked: set[int] = set()
        self.parts: dict[int, dict[Stretched, StretchedPart]] = {}
        self.found: list[Stretched] = []

    def look(self, one: Operation, numbers: Sequence[int]) -> None:
        """Called when an operation has run on inputs with these numbers."""
        made = one.outputs[0]
        shape, number = shape_of(made), identity_of(made)
        if self.parts and not self.parts.keys().isdisjoint(numbers):
            self._follow(one, numbers, number, shape)
        if 1 in shape and len(shape) > 1 and self._is_asked(one, numbers, shape):
            self.asked.add(number)
        if len(one.inputs) == 2 and len(shape) > 1:
            self._stretch(one, numbers, shape, number)

    def _is_asked(self, one: Operation, numbers: Sequence[int], shape: Shape) -> bool:
        # Does this operation insert, keep or move dimensions of size 1? Or is it elementwise, with an input whose
        # dimensions of size 1 were inserted or kept by an earlier operation?
        given, is_first = shape_of(one.inputs[0]) if one.inputs else (), len(one.floats) < 2
        if (
            is_first
            and prod(given) == prod(shape)
            and (shape.count(1) > given.count(1) or (len(given) == len(shape) and given != shape))
        ):
            return True
        if one.keeps_dimensions():
            return True
        was = [at for at, each in enumerate(numbers) if each in self.asked]
        alike = any(shape_of(one.inputs[at]) == shape for at in was)
        return alike and (len(numbers) == 1 or self.elementwise(one))

    def _stretch(self, one: Operation, numbers: Sequence[int], shape: Shape, number: int) -> None:
        shapes = [shape_of(each) for each in one.inputs]
        is_larger = all(1 < prod(each) < prod(shape) for each in shapes) and len(shapes[0]) != len(shapes[1])
        if not is_larger or not all(map(is_float, one.inputs)) or not meet_elsewhere(shapes, len(shape)):
            return
        is_meant = not self.asked.isdisjoint(numbers) or any(map(self.is_held, numbers))
        if not is_meant and self.elementwise(one):
            self.asked.add(number)
            self.found.append(found := Stretched(shapes, shape, number, spot()))
            self.parts[number] = {found: StretchedPart.ALL}

    def _follow(self, one: Operation, numbers: Sequence[int], number: int, shape: Shape) -> None:
        # Update the state of broadcast results that this operation's inputs are computed from.
        for each in {each for known in numbers for each in self.parts.get(known, ())}:
            parts = {self.parts[known][each] for known in numbers if each in self.parts.get(known, ())}
            beside = [
                given
                for known, given in zip(numbers, one.inputs, strict=True)
                if each not in self.parts.get(known, ()) and is_float(given)
            ]
            sizes = [prod(shape_of(given)) for given in beside]
            if prod(shape) == 1:
                each.is_reduced |= not any(size > 1 for size in sizes)
                each.is_used |= any(size > 1 for size in sizes)
            elif (part := self._part(one, parts, shape, each, sizes)) is not None:
                self.parts.setdefault(number, {})[each] = part
            else:
                each.is_used = True

    def _part(
        self, one: Operation, parts: Collection[StretchedPart], shape: Shape, found: Stretched, beside: Sequence[int]
    ) -> StretchedPart | None:
        # Return the part of a broadcast result that is left in the operation's result; None if the two no longer
        # correspond element by element.
        if len(parts) > 1:
            return None
        (part,), largest = parts, max(beside, default=1)
        is_whole = part is StretchedPart.ALL and prod(shape) == prod(found.result)
        if self.elementwise(one):
            is_alone = largest < prod(found.result) if part is StretchedPart.ALL else largest == 1
            return part if is_alone and (is_whole or part is StretchedPart.REDUCED) else None
        if one.is_reduction():
            return StretchedPart.REDUCED
        is_same = len(one.floats) == 1 and prod(shape_of(one.inputs[0])) == prod(shape)
        is_moved = is_same and bool((one.inputs[0].numpy().reshape(-1) == one.outputs[0].numpy().reshape(-1)).all())
        return part if is_moved else None
