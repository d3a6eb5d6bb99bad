"""Finds accidental broadcasting, such as [N, 1] - [N], which gives [N, N].

JAX's NumPy inserts dimensions by itself to give two operands the same rank. If the program itself inserted a dimension
of size 1, broadcasting is intended. If the value already had the dimension, for example from a layer with one output,
and all elements of the result are reduced to one number, the broadcasting is an accident.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax

from backprobe.backends.jax import private
from backprobe.backends.jax.useless.program import EquationStep, RecordedProgram
from backprobe.backends.useless.shapes import Shape, Stretched, meet_elsewhere, use_beside

PRIMES = (2, 3, 5, 7, 11, 13, 17)


class KnownShape(NamedTuple):
    """The facts about a value."""

    is_asked: bool = False  # did the program insert the value's dimensions of size 1?
    stretched: tuple[Stretched, ...] = ()  # broadcast operations from which the value is computed elementwise


def stretched(program: RecordedProgram) -> list[Stretched]:
    """Return the accidental broadcasts among the operations that the output depends on: the result is larger than each
    operand, and is only reduced to one number.
    """
    shapes = _Shapes(program)
    for step in program.live():
        shapes.look(step)
    return [one for one in shapes.found if one.is_accident]


class _Shapes:
    def __init__(self, program: RecordedProgram) -> None:
        self.program = program
        self.known: dict[int, KnownShape] = {}
        self.made_by: dict[int, EquationStep] = {}
        self.found: list[Stretched] = []

    def look(self, step: EquationStep) -> None:
        program = self.program
        self.made_by.update(dict.fromkeys(step.made, step))
        given = [at for at in step.given if program.size(at) > 1]
        made, sizes = step.made[0], [program.size(at) for at in step.made]
        own = [self.known.get(at, KnownShape()) for at in given]
        shapes = [program.shape(self._before(at, step)) for at in given if not self._is_one_number(at)]
        own_of = [self.known.get(at, KnownShape()).stretched for at in given if not self._is_one_number(at)]
        use_beside([*zip(shapes, own_of, strict=True)])
        is_elementwise = len(given) != 1 and _is_elementwise(step, [program.shape(at) for at in step.given])
        new = self._stretched(given, step) if is_elementwise and len(given) > 1 else ()
        before = tuple({each: None for one in own for each in one.stretched})
        is_alike = is_elementwise or (len(given) == 1 and sizes == [program.size(given[0])])
        for each in before if not is_alike and max(sizes) > 1 else ():
            each.is_used = True
        for each in (*before, *new) if sizes == [1] else ():
            each.is_reduced = True
        if is_elementwise or len(given) == 1:
            asked = any(one.is_asked for one in own) if is_elementwise else self._is_asked(step, given[0], own[0])
            kept = (*before, *new) if is_alike and max(sizes) > 1 else ()
            self.known[made] = KnownShape(asked or bool(new), kept)

    def _is_one_number(self, at: int) -> bool:
        # Is the value a single number that was broadcast for this operation?
        maker = self.made_by.get(at)
        return maker is not None and all(self.program.size(one) == 1 for one in maker.given)

    def _is_asked(self, step: EquationStep, given: int, known: KnownShape) -> bool:
        # For an operation on one array: did the program insert the dimensions of size 1 in the result?
        made = step.made[0]
        before, after = self.program.shape(given), self.program.shape(made)
        if 1 not in after:
            return self.program.size(made) > self.program.size(given)  # the operation expanded its operand
        is_same = self.program.size(made) == self.program.size(given)
        is_own = not _is_of_another(step)
        is_inserted = (
            is_own and is_same and after != before and (after.count(1) > before.count(1) or len(after) == len(before))
        )
        return is_inserted or (known.is_asked and len(after) == len(before))

    def _stretched(self, given: Sequence[int], step: EquationStep) -> tuple[Stretched, ...]:
        # Return the operation if it broadcasts two operands although the program inserted no dimension.
        program, result = self.program, self.program.shape(step.made[0])
        operands = [one for at in given if program.shape(one := self._before(at, step)) != result]
        shapes = [*dict.fromkeys(map(program.shape, operands))]
        if len(shapes) != 2 or any(self.known.get(at, KnownShape()).is_asked for at in operands):
            return ()
        is_float = any(map(program.is_floating, operands)) and any(program.moving[at] for at in operands)
        if not is_float or len(shapes[0]) == len(shapes[1]) or not meet_elsewhere(shapes, len(result)):
            return ()
        self.found.append(found := Stretched(shapes, result, step.number, step))
        return (found,)

    def _before(self, at: int, user: EquationStep) -> int:
        # Return the operand before JAX's NumPy changed its rank or shape to those of another operand.
        maker = self.made_by.get(at)
        if maker is None or len(maker.made) != 1:
            return at
        given = [one for one in maker.given if self.program.size(one) > 1]
        if len(given) != 1 or self.program.shape(given[0]) == self.program.shape(at):
            return at
        return given[0] if _is_promotion(maker, user) else at


def _is_of_another(step: EquationStep) -> bool:
    # Is the step part of another operation, such as a transposition that vmap adds to a product?
    outside = max((at for at, one in enumerate(step.places) if one.package != "jax"), default=-1)
    inside = step.places[outside + 1 :]
    first = next((at for at, one in enumerate(inside) if one.is_bind), 0)
    return first > 0 and inside[first - 1].function != step.equation.primitive.name


def _is_promotion(maker: EquationStep, user: EquationStep) -> bool:
    # Was the array made by the call of a JAX function that also runs the operation ``user`` itself?
    first, then = maker.places, user.places
    common = 0
    for one, other in zip(first, then, strict=False):
        common += (one.file, one.function) == (other.file, other.function)
        if one != other:
            break
    inner = first[:common]
    users = max((at for at, one in enumerate(inner) if one.package is None), default=-1)
    called = inner[users + 1 :]
    if not called or called[-1].package != "jax" or any(one.is_bind for one in called):
        return False
    # the operation is run directly, without another function of JAX's NumPy
    return any(one.is_bind for one in then[common:][:2])


def _is_elementwise(step: EquationStep, shapes: Sequence[Shape]) -> bool:
    # Does the operation take operands of one common shape, and return an array of that shape?
    if len(step.made) != 1:
        return False
    dtypes = [getattr(var.aval, "dtype", None) for var in step.equation.invars]
    rank = max(map(len, shapes), default=0)
    if rank > len(PRIMES) or any(dtype is None for dtype in dtypes):
        return False
    full = [len(shape) == rank for shape in shapes]
    return _takes_any_shape(_Once(step.equation), rank, tuple(full), tuple(dtypes))


class _Once:
    # An equation that compares equal to any equation with the same primitive and parameters.
    def __init__(self, equation: Any) -> None:
        self.equation = equation
        self.key = equation.primitive, str(equation.params)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Once) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@lru_cache(maxsize=1000)
def _takes_any_shape(once: _Once, rank: int, full: tuple[bool, ...], dtypes: tuple[Any, ...]) -> bool:
    shape = PRIMES[:rank]
    likes = [jax.ShapeDtypeStruct(shape if each else (), dtype) for each, dtype in zip(full, dtypes, strict=True)]
    try:
        (made,) = jax.eval_shape(lambda *given: private.bind(once.equation, [*given]), *likes)
    except Exception:  # noqa: BLE001  # it takes no operands of this shape
        return False
    return bool(made.shape == shape)
