"""The way back of gradients that come to nothing: exactly 0 at one operation, or cancelled.

The operations on the way from a loss to some Variables are differentiated once more, one after another, by the same
functions as a gradient tape calls. So what each is given is known, what it passes on to each operand, and what it would
pass on if it were given other numbers.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy
import tensorflow as tf

from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.cuts import Place
from backprobe.backends.tensorflow.private import identity_of
from backprobe.backends.tensorflow.tensors import is_zero
from backprobe.backends.tensorflow.useless.outcomes import Operation, is_float
from backprobe.backends.useless import CANCELS, FLAT, TIMES_ZERO

ROUNDING = 64
"""Contributions cancel if their sum is at most so many units of rounding of the sum of their norms.

In healthy trainings it is above 5e5: see docs/useless.md.
"""
FAINT = 1e-3
"""An operation that passes on less than this share of what it is given is tried with other numbers."""
BY_CHANCE = "trained"
"""A reason for 0 of which nothing is said: a factor that is trained is 0 now, or the parts of one sum cancel."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """An operation on the way from a Variable: itself, the numbers of its operands, its line, and its own gradient
    function if it has one.
    """

    operation: Operation
    numbers: Sequence[int]
    place: Place | None
    own_gradient: Callable[..., Any] | None = None

    def gradients(self, given: Sequence[Any], inputs: Sequence[Any] | None = None) -> list[Any]:
        """Of its operands, or of these in their place, for the gradients of what it made."""
        if self.own_gradient is not None:
            found = self.own_gradient(*given)
        else:
            one = self.operation
            found = private.gradients_of(one.kind, one.attrs, one.inputs if inputs is None else inputs, one.outputs,
                                         given)  # fmt: skip
        return [*found] if isinstance(found, list | tuple) else [found]


@dataclass
class Seen:
    """What an operation was given and gave, as backward went through it."""

    given: Sequence[Any] = ()
    came: bool = False  # was any of that not 0?
    gave: dict[int, bool] = field(default_factory=dict)  # by the place of an operand: is it exactly 0, or rounding?
    hidden: set[int] = field(default_factory=set)  # where that is rounding: it takes away just what comes


@dataclass
class Sum:
    """The contributions that came to one value."""

    total: Any
    norms: float
    last: Recorded  # the last operation in the program's order that contributes
    count: int = 1

    def add(self, gradient: Any) -> None:
        self.total = self.total + gradient
        self.norms += _norm(gradient)
        self.count += 1

    @property
    def cancels(self) -> bool:
        """Is what remains of several contributions but rounding?"""
        if self.count < 2 or not self.norms:
            return False
        return _norm(self.total) <= ROUNDING * _rounding(self.total) * self.norms


@dataclass(frozen=True)
class Ending:
    """Where the gradients of a Variable come to nothing: the code of why, the operation's kind and its line."""

    code: str
    operation: str
    place: Place | None
    order: int


class Replay:
    """One pass over the recorded operations, which are in the order in which they ran, from the numbers of the targets
    with their gradients to the numbers of Variables.
    """

    def __init__(
        self, recorded: Sequence[Recorded], targets: Mapping[int, Any], leaves: Collection[int],
        is_trained: Callable[[Any], bool],
    ) -> None:  # fmt: skip
        self.recorded, self.targets, self.leaves, self.is_trained = recorded, targets, leaves, is_trained
        self.order = {one: at for at, one in enumerate(recorded)}
        self.maker = {identity_of(made): one for one in recorded for made in one.operation.outputs}
        self.seen: dict[Recorded, Seen] = {}
        self.sums: dict[int, Sum] = {}
        self.gradients = dict(targets)
        self.users: dict[int, list[tuple[Recorded, int]]] = defaultdict(list)
        for one in reversed(recorded):
            self._pass(one)

    def _pass(self, one: Recorded) -> None:
        outputs = one.operation.outputs
        numbers = [number if self.maker[number] is one else None for number in map(identity_of, outputs)]
        given = [self.gradients.get(number) if number is not None else None for number in numbers]
        if all(each is None for each in given):
            return
        given = [tf.zeros_like(made) if each is None and is_float(made) else each
                 for each, made in zip(given, outputs, strict=True)]  # fmt: skip
        seen = self.seen[one] = Seen(given, any(is_zero(each) is False for each in given if each is not None))
        for at, (number, gradient) in enumerate(zip(one.numbers, one.gradients(given), strict=False)):
            if gradient is None or not (number in self.maker or number in self.leaves):
                continue
            self.users[number].append((one, at))
            gradient, is_nothing = _dense(gradient), is_zero(gradient) is True
            seen.gave[at] = is_nothing
            if seen.came and not is_nothing and self._takes_away(one, at, gradient):
                seen.gave[at] = True
                seen.hidden.add(at)
            if number in self.maker:
                self._add(number, gradient, one, counts=not is_nothing)

    def _takes_away(self, one: Recorded, at: int, gradient: Any) -> bool:
        # Is what it passes on rounding, though it passes on other numbers of the same size? Then it removes just these.
        given = [*filter(_is_gradient, self.seen[one].given)]
        size, largest = math.hypot(*map(_norm, given)), max(each.shape.num_elements() for each in given)
        if one.own_gradient is not None or gradient.shape.num_elements() < largest or _norm(gradient) > FAINT * size:
            return False
        drawn = numpy.random.default_rng(0)
        others = [_drawn_like(each, drawn, True) for each in self.seen[one].given]
        passed = one.gradients(others)[at]
        gain = _norm(_dense(passed)) / math.hypot(*map(_norm, filter(_is_gradient, others)))
        return _norm(gradient) <= ROUNDING * _rounding(gradient) * gain * size

    def _add(self, number: int, gradient: Any, one: Recorded, counts: bool) -> None:
        if not counts:
            self.gradients.setdefault(number, gradient)
        elif number in self.sums:
            self.sums[number].add(gradient)
            self.gradients[number] = self.sums[number].total
        else:
            total = gradient + self.targets[number] if number in self.targets else gradient
            self.sums[number] = Sum(total, _norm(gradient), one)
            self.gradients[number] = total

    def endings(self, leaf: int) -> set[Ending]:
        """Where what is on its way to a Variable comes to nothing, on each way; nothing where some of it arrives."""
        cancelled = {number for number, one in self.sums.items() if one.cancels and not self._is_read(number)}
        return set() if leaf in self._reached(cancelled) else {*self._endings(leaf, cancelled)}

    def _is_read(self, number: int) -> bool:
        # Is it what a Variable holds?
        return all(each in self.leaves or each not in self.maker for each in self.maker[number].numbers) and any(
            each in self.leaves for each in self.maker[number].numbers
        )

    def _reached(self, cancelled: Collection[int]) -> set[int]:
        # The values to which something comes that is neither 0 nor rounding.
        found, pending = set(self.targets), [*self.targets]
        while pending:
            one = self.maker.get(pending.pop())
            if one is None or one not in self.seen:
                continue
            for at, is_none in self.seen[one].gave.items():
                number = one.numbers[at]
                if not is_none and number not in cancelled and number not in found:
                    found.add(number)
                    pending.append(number)
        return found

    def _endings(self, leaf: int, cancelled: Collection[int]) -> Iterator[Ending]:
        pending, visited = [leaf], {leaf}
        while pending:
            number = pending.pop()
            if number in cancelled:
                last = self.sums[number].last
                yield Ending(CANCELS, _named(self.maker[number]), last.place, self.order[last])
                continue
            for user, at in self.users[number]:
                seen = self.seen[user]
                if seen.gave[at] and seen.came:
                    yield Ending(self._why(user, at), _named(user), user.place, self.order[user])
                    continue
                new = {each for each in map(identity_of, user.operation.outputs) if self.maker[each] is user} - visited
                visited |= new
                pending += new

    def _why(self, one: Recorded, at: int) -> str:
        # Why does an operation pass exactly 0 on to an operand? It is asked again, with other numbers.
        if one.own_gradient is not None:
            return BY_CHANCE
        if at in self.seen[one].hidden:
            return CANCELS
        drawn = numpy.random.default_rng(0)
        given = [_drawn_like(each, drawn) for each in self.seen[one].given]
        if not self._passes_zero(one, at, given, one.operation.inputs):
            return BY_CHANCE  # the parts of a sum cancel
        code = FLAT
        for other, operand in enumerate(one.operation.inputs):
            if not is_float(operand) or (other == at and not is_zero(operand)):
                continue
            factor = tf.constant(drawn.uniform(0.5, 1.5, operand.shape), operand.dtype)
            instead = [[*one.operation.inputs] for _ in range(2)]
            instead[0][other], instead[1][other] = factor, -factor
            if not any(self._passes_zero(one, at, given, inputs) for inputs in instead):
                if self.is_trained(operand):
                    return BY_CHANCE
                code = TIMES_ZERO
        return code

    def _passes_zero(self, one: Recorded, at: int, given: Sequence[Any], inputs: Sequence[Any]) -> bool:
        passed = one.gradients(given, inputs)[at]
        return passed is None or is_zero(passed) is True


def _is_gradient(given: Any) -> bool:
    return given is not None and is_float(given)


def _drawn_like(gradient: Any, drawn: numpy.random.Generator, is_signed: bool = False) -> Any:
    # Other numbers everywhere: an operation that passes some of these on is not flat.
    if not _is_gradient(gradient):
        return gradient
    numbers = drawn.normal(size=gradient.shape) if is_signed else drawn.uniform(0.5, 1.5, gradient.shape)
    return tf.constant(numbers, gradient.dtype)


def _named(one: Recorded) -> str:
    # As the program may call it.
    name = one.operation.kind.removesuffix("V2").removesuffix("V3")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _dense(gradient: Any) -> Any:
    return tf.convert_to_tensor(gradient)


def _norm(gradient: Any) -> float:
    numbers = gradient.numpy().reshape(-1)
    if numbers.dtype != numpy.float32 or not (size := float(numpy.linalg.norm(numbers))):
        size = float(numpy.linalg.norm(numbers.astype(numpy.float64)))  # squares of what is tiny are 0 before
    return size


def _rounding(tensor: Any) -> float:
    # The unit of it in a dtype.
    return float(ml_dtypes.finfo(tensor.dtype.as_numpy_dtype).eps)
