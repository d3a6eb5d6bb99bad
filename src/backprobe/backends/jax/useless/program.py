"""Runs a function's equations one by one. The contents of calls, checkpoints and branches are run as separate
equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy
from jax.extend.core import ClosedJaxpr, Literal, Primitive

from backprobe.backends.jax import private
from backprobe.backends.jax.control_flow import CALLS, CHECKPOINTS
from backprobe.backends.user_lines import source_at
from backprobe.record.source import Source
from backprobe.source.user_code import package

HOMES = (jnp, jax.nn)
"""The modules that contain the JAX functions that programs call."""


@dataclass(frozen=True)
class CodePlace:
    """A line of code that made an equation, and the name of the function that contains the line."""

    file: str
    function: str
    line: int

    @property
    def package(self) -> str | None:
        return package(self.file)

    @property
    def is_bind(self) -> bool:
        """Is this the frame that binds a primitive to its operands?"""
        bind = Primitive.bind.__code__
        return (self.file, self.function) == (bind.co_filename, bind.co_name)


@dataclass(eq=False)
class EquationStep:
    """One equation, and the numbers of the values that it reads and computes."""

    number: int
    equation: Any
    given: Sequence[int]
    made: Sequence[int]

    @property
    def places(self) -> list[CodePlace]:
        """The places of the frames that made the equation, outermost first."""
        traceback = self.equation.source_info.traceback
        step, found = None if traceback is None else traceback.as_python_traceback(), list[CodePlace]()
        while step is not None:
            code = step.tb_frame.f_code
            found.append(CodePlace(code.co_filename, code.co_name, step.tb_lineno))
            step = step.tb_next
        return found

    @property
    def line(self) -> Source | None:
        """The program's line that made the equation; None if there is none."""
        users = [one for one in self.places if one.package is None]
        return source_at(users[-1].file, users[-1].line) if users else None

    @property
    def operation(self) -> str:
        """The name of the operation in the program: the JAX function that the program's line calls, the program's own
        function, or else the primitive.
        """
        places = self.places
        users = max((at for at, one in enumerate(places) if one.package is None), default=-1)
        called = [one.function for one in places[users + 1 :]]
        name = next((each for each in called if any(hasattr(home, each) for home in HOMES)), None)
        inside = private.inner_jaxprs(self.equation)
        own = next((private.function_name(one) for one in inside), None)
        return name or own or str(self.equation.primitive.name)


@dataclass(eq=False)
class RecordedProgram:
    """The steps of one run. ``values`` has the values of all variables; ``moving`` says which of them depend on the
    inputs.
    """

    inputs: Sequence[int] = ()
    output: int = -1
    steps: list[EquationStep] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    moving: list[bool] = field(default_factory=list)

    @classmethod
    def run(cls, closed: ClosedJaxpr, inputs: Sequence[Any]) -> RecordedProgram:
        """Run a function with one output."""
        made = cls()
        made.inputs = [made._new(value, True) for value in inputs]
        outputs = made._through(closed.jaxpr, closed.consts, made.inputs)
        made.output = outputs[0]
        return made

    def is_floating(self, at: int) -> bool:
        value = self.values[at]
        return isinstance(value, float) or jnp.issubdtype(getattr(value, "dtype", bool), jnp.floating)

    def shape(self, at: int) -> tuple[int, ...]:
        return tuple(jnp.shape(self.values[at]))

    def size(self, at: int) -> int:
        return int(numpy.prod(self.shape(at), dtype=int))

    def live(self) -> list[EquationStep]:
        """Return the steps that the output depends on, in order."""
        needed, found = {self.output}, []
        for step in reversed(self.steps):
            if not needed.isdisjoint(step.made):
                needed.update(step.given)
                found.append(step)
        return found[::-1]

    def _new(self, value: Any, is_moving: bool) -> int:
        self.values.append(value)
        self.moving.append(is_moving)
        return len(self.values) - 1

    def _through(self, jaxpr: Any, constants: Sequence[Any], given: Sequence[int]) -> list[int]:
        known = {var: self._new(value, False) for var, value in zip(jaxpr.constvars, constants, strict=True)}
        known.update(zip(jaxpr.invars, given, strict=True))

        def read(var: Any) -> int:
            return self._new(var.val, False) if isinstance(var, Literal) else known[var]

        for equation in jaxpr.eqns:
            operands = [*map(read, equation.invars)]
            inside = self._inside(equation, operands)
            made = self._one(equation, operands) if inside is None else self._through(*inside)
            known.update(zip(equation.outvars, made, strict=True))
        return [*map(read, jaxpr.outvars)]

    def _inside(self, equation: Any, given: list[int]) -> tuple[Any, Sequence[Any], list[int]] | None:
        # Return the jaxpr that an equation calls, with its constants and operands; None if the equation is not a call,
        # a checkpoint or a branch.
        name, inner = equation.primitive.name, private.inner_jaxprs(equation)
        if name == "cond":
            taken = numpy.clip(int(self.values[given[0]]), 0, len(inner) - 1)
            inner, given = [inner[taken]], given[1:]
        elif name not in (*CALLS, *CHECKPOINTS):
            return None
        (one,) = inner
        return (one.jaxpr, one.consts, given) if isinstance(one, ClosedJaxpr) else (one, (), given)

    def _one(self, equation: Any, given: list[int]) -> list[int]:
        is_moving = any(self.moving[at] for at in given)
        made = [self._new(value, is_moving) for value in private.bind(equation, [self.values[at] for at in given])]
        self.steps.append(EquationStep(len(self.steps), equation, given, made))
        return made
