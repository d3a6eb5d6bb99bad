"""A framework of a hundred lines, for tests: Python floats that remember what they were computed from."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import methodcaller
from types import SimpleNamespace
from typing import Any


class Scalar:
    """A number, the numbers that it was computed from, and its derivative with respect to each of these."""

    shape = ()
    dtype = "float64"

    def __init__(self, number: float, parents: tuple[tuple[Scalar, float], ...] = (), *, is_leaf: bool = False) -> None:
        self.number = float(number)
        self.parents = tuple((parent, slope) for parent, slope in parents if parent.is_differentiated)
        self.is_differentiated = is_leaf or bool(self.parents)

    def __repr__(self) -> str:
        return f"Scalar({self.number})"

    def __float__(self) -> float:
        return self.number

    def __int__(self) -> int:
        return int(self.number)

    def __bool__(self) -> bool:
        return bool(self.number)

    # arithmetic

    def __add__(self, other: Any) -> Scalar:
        return _binary(self, other, lambda a, b: (a + b, 1.0, 1.0))

    def __sub__(self, other: Any) -> Scalar:
        return _binary(self, other, lambda a, b: (a - b, 1.0, -1.0))

    def __mul__(self, other: Any) -> Scalar:
        return _binary(self, other, lambda a, b: (a * b, b, a))

    def __truediv__(self, other: Any) -> Scalar:
        return _binary(self, other, lambda a, b: (a / b, 1 / b, -a / b**2))

    def __pow__(self, other: Any) -> Scalar:
        return _binary(self, other, lambda a, b: (a**b, b * a ** (b - 1), a**b * math.log(a) if a > 0 else math.nan))

    def __floordiv__(self, other: Any) -> Scalar:
        return _binary(self, other, lambda a, b: (a // b, 0.0, 0.0))

    def __mod__(self, other: Any) -> Scalar:
        return _binary(self, other, lambda a, b: (a % b, 1.0, -(a // b)))

    def __radd__(self, other: Any) -> Scalar:
        return _lifted(other) + self

    def __rsub__(self, other: Any) -> Scalar:
        return _lifted(other) - self

    def __rmul__(self, other: Any) -> Scalar:
        return _lifted(other) * self

    def __rtruediv__(self, other: Any) -> Scalar:
        return _lifted(other) / self

    def __rpow__(self, other: Any) -> Scalar:
        return _lifted(other) ** self

    def __neg__(self) -> Scalar:
        return self._unary(-self.number, -1.0)

    def __pos__(self) -> Scalar:
        return self._unary(self.number, 1.0)

    def __abs__(self) -> Scalar:
        return self._unary(abs(self.number), math.copysign(1.0, self.number))

    abs = __abs__

    def __lt__(self, other: Any) -> bool:
        return self.number < float(other)

    def __gt__(self, other: Any) -> bool:
        return self.number > float(other)

    def __le__(self, other: Any) -> bool:
        return self.number <= float(other)

    def __ge__(self, other: Any) -> bool:
        return self.number >= float(other)

    # functions

    def exp(self) -> Scalar:
        return self._unary(math.exp(self.number), math.exp(self.number))

    def sin(self) -> Scalar:
        return self._unary(math.sin(self.number), math.cos(self.number))

    def cos(self) -> Scalar:
        return self._unary(math.cos(self.number), -math.sin(self.number))

    def tanh(self) -> Scalar:
        return self._unary(math.tanh(self.number), 1 - math.tanh(self.number) ** 2)

    def sqrt(self) -> Scalar:
        return self._unary(math.sqrt(self.number), 0.5 / math.sqrt(self.number))

    def relu(self) -> Scalar:
        return self._unary(max(self.number, 0.0), float(self.number > 0))

    def stop_gradient(self) -> Scalar:
        return Scalar(self.number)

    def _unary(self, number: float, slope: float) -> Scalar:
        return Scalar(number, ((self, slope),))


def _lifted(value: Any) -> Scalar:
    return value if isinstance(value, Scalar) else Scalar(value)


def _binary(a: Scalar, other: Any, rule: Callable[[float, float], tuple[float, float, float]]) -> Any:
    if not isinstance(other, Scalar | int | float):
        return NotImplemented
    b = _lifted(other)
    number, left, right = rule(a.number, b.number)
    return Scalar(number, ((a, left), (b, right)))


NAMES = ("abs", "exp", "sin", "cos", "tanh", "sqrt", "relu", "stop_gradient")
OPS = SimpleNamespace(**{name: methodcaller(name) for name in NAMES})
"""Its functions. They are written in C, as those of the real frameworks are: nothing in them has a name."""


def ordered(output: Scalar) -> list[Scalar]:
    """What an output was computed from, and itself: each before all that it was computed from."""
    found: dict[int, Scalar] = {}

    def visit(scalar: Scalar) -> None:
        if id(scalar) not in found:
            for parent, _ in scalar.parents:
                visit(parent)
            found[id(scalar)] = scalar

    visit(output)
    return list(reversed(found.values()))


def gradients(output: Scalar, cotangent: float) -> dict[int, float]:
    """The gradient of each scalar that the output depends on, by identity."""
    found = {id(output): cotangent}
    for scalar in ordered(output):
        for parent, slope in scalar.parents:
            found[id(parent)] = found.get(id(parent), 0.0) + found[id(scalar)] * slope
    return found
