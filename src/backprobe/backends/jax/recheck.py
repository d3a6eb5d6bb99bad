"""Repeats calls of JAX with concrete arrays, in double precision, outside of the program's traces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import BuiltinFunctionType, MethodType
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.framework_code import FrameworkFunctions
from backprobe.backends.jax import calls, equinox_wrappers, models, private
from backprobe.backends.jax.arguments import Lifted
from backprobe.backends.jax.checked_models import concrete, taken_apart
from backprobe.backends.jax.precision import coarsest_cast, has_custom, has_rules
from backprobe.backends.jax.tensors import is_array, is_floating
from backprobe.backends.numpy import wide
from backprobe.backends.pure_calls import NOT_FOLLOWED, is_python_computing, is_users, why_not_kind
from backprobe.backends.recheck import Program, Recheck, RecordedCall
from backprobe.record.reasons import Reason

DERIVING = FrameworkFunctions(jax.jvp, jax.vjp, jax.linearize)
OF_MODEL = ""  # the name of the input that contains the arrays of a model


class JaxCall(RecordedCall):
    """A call of JAX. Arrays need not be copied, because nothing writes to them."""

    def kept(self, tensor: Any) -> Any:
        return concrete(tensor)

    def cast(self, tensor: Any) -> Any:
        if not self.double or not jnp.issubdtype(tensor.dtype, jnp.inexact):
            return tensor
        with self._alone():
            is_complex = jnp.issubdtype(tensor.dtype, jnp.complexfloating)
            return tensor.astype(jnp.complex128 if is_complex else jnp.float64)

    def rounding(self, tensor: Any) -> float:
        return float(jnp.finfo(tensor.dtype).eps)

    def numbers(self, tensor: Any) -> Any:
        return wide(numpy.asarray(concrete(tensor)))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        # Inside this context, compilation is enabled, and so is double precision if it is needed. The program's own
        # flags have no effect.
        with private.double_precision(self.double), jax.disable_jit(False):
            yield

    def _function(self, *arrays: Any) -> list[Any]:
        return self.call({**self.constants, **dict(zip(self.inputs, arrays, strict=True))})

    def _arrays(self, values: Sequence[Any]) -> list[Any]:
        pairs = zip(self.inputs, values, strict=True)
        return [jnp.asarray(value, self.constants[key].dtype) for key, value in pairs]

    def attempt(self) -> tuple[list[Any], float]:
        with self._alone():
            arrays = self._arrays(self.values)
            outputs = [concrete(output) for output in self._function(*arrays)]
            jaxpr = jax.make_jaxpr(self._function)(*arrays)
            self.is_custom = self.is_custom or has_custom(jaxpr)
            self.may_have_rules = has_rules(jaxpr)
            return outputs, coarsest_cast(jaxpr) if self.double else 0.0

    def run(self, values: Sequence[Any]) -> list[Any]:
        with self._alone():
            return [self.numbers(output) for output in self._function(*self._arrays(values))]

    def pull(self, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        with self._alone():
            outputs, pull = jax.vjp(self._function, *self._arrays(values))
            given = [jnp.asarray(numpy.conj(c), output.dtype) for c, output in zip(cotangents, outputs, strict=True)]
            return [numpy.conj(self.numbers(gradient)) for gradient in pull(given)]

    def push(self, values: Sequence[Any], at: int, direction: Any) -> list[Any]:
        with self._alone():
            arrays = self._arrays(values)
            moves = [direction if at == place else numpy.zeros(array.shape) for place, array in enumerate(arrays)]
            given = [jnp.asarray(move, array.dtype) for move, array in zip(moves, arrays, strict=True)]
            return [self.numbers(moved) for moved in jax.jvp(self._function, arrays, given)[1]]

    def pull_twice(self, values: Sequence[Any], cotangents: Sequence[Any], seconds: Sequence[Any]) -> list[Any]:
        def gradients(arrays: Sequence[Any], given: Sequence[Any]) -> list[Any]:
            _, pull = jax.vjp(self._function, *arrays)
            return [jnp.conj(one) for one in pull([jnp.conj(c) for c in given])]

        with self._alone():
            arrays = self._arrays(values)
            outputs = jax.eval_shape(self._function, *arrays)
            given = [jnp.asarray(c, output.dtype) for c, output in zip(cotangents, outputs, strict=True)]
            found, pull = jax.vjp(gradients, arrays, given)
            weights = [jnp.asarray(numpy.conj(c), one.dtype) for c, one in zip(seconds, found, strict=True)]
            return [numpy.conj(self.numbers(one)) for part in pull(weights) for one in part]


class JaxRecheck(calls.JaxCallables, Recheck):
    """Implements ``Recheck`` for JAX. The program runs under ``jax.linearize``, and Python runs its loops and
    branches.
    """

    recorded = JaxCall
    has_transforms = True

    def __init__(self) -> None:
        super().__init__()
        self.level: Any = None

    def run(self, program: Program, target: Any, inputs: Mapping[str, Any], undo: list[Callable[[], None]]) -> None:
        taken = taken_apart(target)
        lifted = Lifted({OF_MODEL: taken.held, **inputs}, None)
        if not lifted.arrays:
            taken.run(program, taken.held, inputs)
            taken.over()
            return

        def linearized(*tracers: Any) -> Any:
            self.level = private.trace_of(tracers[0])
            try:
                filled = dict(lifted.filled(tracers))
                with private.hearing_operations(self.level, self._heard):
                    taken.run(program, filled.pop(OF_MODEL), filled)
            finally:
                lifted.give_back(tracers, lambda tracer: tracer, concrete)
            return jnp.zeros(())

        with jax.disable_jit():
            jax.linearize(linearized, *lifted.arrays)
        taken.over()

    def _heard(self, name: str, is_custom: bool, given: Sequence[Any], made: Sequence[Any], *_: Any) -> None:
        if any(private.carried(one, self.level) is not None for one in made):
            self.flows.append((name, is_custom))

    def differentiated_by(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]] | None:
        inside = private.differentiated_by(function)
        return None if inside is None else (inside, args, kwargs)

    def differentiates(self, function: Any) -> int:
        inside = calls.jitted(function)
        inside = function if inside is None else inside
        if private.is_derivative(inside) or inside in DERIVING:
            return 1
        depth = equinox_wrappers.differentiates(inside)
        while (inside := private.differentiated_by(inside)) is not None:
            depth += 1
        return depth

    def is_whole(self, function: Any) -> bool:
        if isinstance(function, partial):
            return self.is_whole(function.func)
        if isinstance(function, MethodType):
            return self.is_whole(function.__func__)
        return self.is_custom(function) or private.is_staged(function)

    def split(self, function: Any) -> tuple[Callable[..., Any], Any]:
        bound: Any = getattr(function, "__self__", None) if isinstance(function, MethodType) else None
        if type(bound).__name__ == "_IndexUpdateRef":  # a method of x.at[i]
            return lambda array, /, *a, **k: getattr(array.at[bound.index], function.__name__)(*a, **k), bound.array
        if models.kind(function) in ("equinox", "nnx") or equinox_wrappers.is_wrapper(function):
            held, whole = models.taken_apart(function)
            return lambda held, /, *a, **k: whole(held)(*a, **k), held
        return super().split(function)

    def why_not(self, function: Any, tensors: Sequence[Any]) -> Reason | None:
        if any(isinstance(concrete(tensor), jax.core.Tracer) for tensor in tensors):
            return Reason("traced")
        if self.is_custom(function) or is_python_computing(function) or models.kind(function) in ("equinox", "nnx"):
            return None
        owner = getattr(function, "__self__", None)
        if isinstance(function, BuiltinFunctionType) and not is_array(owner):
            return why_not_kind(function)
        if owner is not None and models.kind(owner) == "linen" and owner.scope is None and function.__name__ == "apply":
            return None  # all values that the call computes from are passed to it
        if models.kind(function) == "linen" or models.kind(owner) is not None:
            return Reason("bound_module")
        return NOT_FOLLOWED if is_users(function) and not private.is_staged(function) else None

    def is_copied(self, leaf: Any) -> bool:
        """Is the leaf an array, a pytree, or a value of a type of JAX? Nothing writes to arrays, and each repetition
        gets a new pytree.
        """
        home = type(leaf).__module__.partition(".")[0]
        return is_array(leaf) or home in ("jax", "jaxlib") or not jax.tree_util.all_leaves([leaf])

    def is_custom(self, function: Any) -> bool:
        return isinstance(function, jax.custom_vjp | jax.custom_jvp) or type(function).__name__ in (
            "filter_custom_vjp",
            "filter_custom_jvp",
        )

    def leaves(self, value: Any) -> Iterable[tuple[str, Any]]:
        for path, leaf in jax.tree_util.tree_leaves_with_path(value):
            steps = models.dotted(path)
            yield f".{steps}" if steps else "", leaf

    def refilled(self, value: Any, replace: Callable[[Any], Any]) -> Any:
        return jax.tree.map(replace, value)

    is_tensor = staticmethod(is_array)

    def is_differentiated(self, leaf: Any) -> bool:
        return is_floating(leaf) and private.carried(leaf, self.level) is not None

    def release(self) -> None:
        self.level = None
