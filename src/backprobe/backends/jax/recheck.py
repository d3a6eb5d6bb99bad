"""Calls of JAX heard and made again: with concrete arrays, in double precision, outside of what traces the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import BuiltinFunctionType, MethodType
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.jax import calls, models, private
from backprobe.backends.jax.arguments import Lifted
from backprobe.backends.jax.checked_models import Program, concrete, taken_apart
from backprobe.backends.jax.precision import coarsest_cast, has_custom
from backprobe.backends.jax.tensors import is_array
from backprobe.backends.pure_calls import (
    NOT_FOLLOWED,
    closed_over,
    is_python_computing,
    is_users,
    why_not_given,
    why_not_kind,
)
from backprobe.backends.recheck import CAPTURED, HELD, Input, Operation, Recheck, UncheckedCalls, first_line, repeatable
from backprobe.record.reasons import Reason

TRACED = Reason("traced")

OF_MODEL = ""  # among the inputs: what a model holds itself


class JaxRecheck(calls.JaxCallables, Recheck):
    """JAX's ``Recheck``: the program runs under ``jax.linearize``, loops and branches as Python runs them."""

    def __init__(self) -> None:
        self.level: Any = None
        self.flows: list[tuple[str, bool]] = []  # the name of what was differentiated; is its derivative its own?

    def run(self, program: Program, target: Any, inputs: Mapping[str, Any]) -> None:
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
                with private.hearing_operations(self.level, lambda *flow: self.flows.append(flow)):
                    taken.run(program, filled.pop(OF_MODEL), filled)
            finally:
                lifted.give_back(tracers, lambda tracer: tracer, concrete)
            return jnp.zeros(())

        with jax.disable_jit():
            jax.linearize(linearized, *lifted.arrays)
        taken.over()

    def is_whole(self, function: Any) -> bool:
        if isinstance(function, partial):
            return self.is_whole(function.func)
        if isinstance(function, MethodType):
            return self.is_whole(function.__func__)
        return _is_custom(function) or private.is_staged(function)

    def hear(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> HeardCall | Reason | None:
        if isinstance(function, partial):
            return self.hear(function.func, (*function.args, *args), {**function.keywords, **kwargs})
        if isinstance(function, type):
            return None
        given = Given.of(function, args, kwargs)
        found = jax.tree.leaves(given.tree)
        if not any(self._is_differentiated(leaf) for leaf in found):
            return HELD
        if any(isinstance(leaf, jax.core.Tracer) and isinstance(concrete(leaf), jax.core.Tracer) for leaf in found):
            return TRACED
        return _why_not_again(function) or why_not_given(args, kwargs, _is_copied) or HeardCall(self, given)

    def now(self) -> int:
        return len(self.flows)

    def account_for(self, since: int) -> None:
        del self.flows[since:]

    def unaccounted(self) -> UncheckedCalls:
        return UncheckedCalls.of(self.flows)

    def _is_differentiated(self, leaf: Any) -> bool:
        return is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.inexact) and private.reaches(leaf, self.level)

    def release(self) -> None:
        self.level = None


@dataclass
class Given:
    """A call as a function of a pytree: what the function itself holds, then its arguments."""

    function: Callable[..., Any]
    called: Any  # what the program calls
    owner: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    tree: Any = field(init=False)

    def __post_init__(self) -> None:
        self.tree = (self.owner, self.args, dict(self.kwargs))

    @classmethod
    def of(cls, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Given:
        owner: Any = getattr(function, "__self__", None) if isinstance(function, MethodType) else None
        if is_array(owner):
            return cls(function.__func__, function, owner, args, kwargs)
        if type(owner).__name__ == "_IndexUpdateRef":  # x.at[i], and a method of that
            index, name = owner.index, function.__name__
            return cls(
                lambda array, *a, **k: getattr(array.at[index], name)(*a, **k), function, owner.array, args, kwargs
            )
        if models.kind(function) == "equinox" or calls.is_wrapper(function):
            return cls(lambda module, *a, **k: module(*a, **k), function, function, args, kwargs)
        if models.kind(function) == "nnx":
            from flax import nnx

            graph, state = nnx.split(function)
            return cls(lambda held, *a, **k: nnx.merge(graph, held)(*a, **k), function, state, args, kwargs)
        return cls(lambda _, *a, **k: function(*a, **k), function, None, args, kwargs)


class HeardCall:
    """A call that is about to be made; arrays are never written to."""

    def __init__(self, owner: JaxRecheck, given: Given) -> None:
        self.owner, self.given = owner, given

    def returned(self, result: Any) -> Operation | Reason | None:
        outputs = [at for at, leaf in enumerate(jax.tree.leaves(result)) if self.owner._is_differentiated(leaf)]
        if not outputs:
            return None
        called = self.given.function if is_array(self.given.owner) else self.given.called  # that array is an input
        closed = [leaf for held in closed_over((called, *self.given.tree)) for leaf in jax.tree.leaves(held)]
        notes = [CAPTURED] if any(map(self.owner._is_differentiated, closed)) else []
        return repeatable(partial(JaxOperation, self.given, self.owner._is_differentiated, outputs), notes)


class JaxOperation:
    """JAX's ``Operation``."""

    def __init__(
        self, given: Given, is_differentiated: Callable[[Any], bool], outputs: Sequence[int], double: bool,
        notes: Sequence[Reason],
    ) -> None:  # fmt: skip
        self.given, self.outputs, self.double, self.notes = given, outputs, double, notes
        self.is_custom = _is_custom(given.called)
        pairs, self.structure = jax.tree_util.tree_flatten_with_path(given.tree)
        with self._alone():
            self.leaves = [self._cast(concrete(leaf)) for _, leaf in pairs]
        self.places = [at for at, (_, leaf) in enumerate(pairs) if is_differentiated(leaf)]
        self.inputs = [Input(*_place(pairs[at][0]), to_numpy(self.leaves[at])) for at in self.places]
        self.epsilon = max(float(jnp.finfo(self.leaves[at].dtype).eps) for at in self.places)

    def _cast(self, leaf: Any) -> Any:
        if not self.double or not is_array(leaf) or not jnp.issubdtype(leaf.dtype, jnp.inexact):
            return leaf
        return leaf.astype(jnp.complex128 if jnp.issubdtype(leaf.dtype, jnp.complexfloating) else jnp.float64)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """In double precision whatever the program's own flags say, and compiled where that does not."""
        with private.double_precision(self.double), jax.disable_jit(False):
            yield

    def _function(self, *arrays: Any) -> list[Any]:
        leaves = list(self.leaves)
        for at, array in zip(self.places, arrays, strict=True):
            leaves[at] = array
        owner, args, kwargs = jax.tree.unflatten(self.structure, leaves)
        made = jax.tree.leaves(self.given.function(owner, *args, **kwargs))
        return [made[at] for at in self.outputs]

    def _arrays(self, values: Sequence[Any]) -> list[Any]:
        return [jnp.asarray(value, self.leaves[at].dtype) for at, value in zip(self.places, values, strict=True)]

    def why_it_fails(self) -> Reason | None:
        try:
            with self._alone():
                arrays = self._arrays([held.value for held in self.inputs])
                outputs = [concrete(output) for output in self._function(*arrays)]
                jaxpr = jax.make_jaxpr(self._function)(*arrays)
                within = coarsest_cast(jaxpr) if self.double else 0.0
                self.is_custom = self.is_custom or has_custom(jaxpr)
        except Exception as error:  # noqa: BLE001  # whatever it is: it is the program's, and reported
            return Reason("raises", {"error": first_line(error)})
        self.epsilon = max([self.epsilon, within, *(float(jnp.finfo(output.dtype).eps) for output in outputs)])
        return None

    def run(self, values: Sequence[Any]) -> list[Any]:
        with self._alone():
            return [to_numpy(output) for output in self._function(*self._arrays(values))]

    def pull(self, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        with self._alone():
            outputs, pull = jax.vjp(self._function, *self._arrays(values))
            given = [jnp.asarray(numpy.conj(c), output.dtype) for c, output in zip(cotangents, outputs, strict=True)]
            return [numpy.conj(to_numpy(gradient)) for gradient in pull(given)]


def _is_custom(function: Any) -> bool:
    """Has it a derivative of its own?"""
    return isinstance(function, jax.custom_vjp | jax.custom_jvp) or type(function).__name__ in (
        "filter_custom_vjp", "filter_custom_jvp"
    )  # fmt: skip


def _why_not_again(function: Any) -> Reason | None:
    """Why a function is not called again: it might do something that is seen elsewhere. None where it may be."""
    if _is_custom(function) or is_python_computing(function) or models.kind(function) in ("equinox", "nnx"):
        return None
    owner = getattr(function, "__self__", None)
    if isinstance(function, BuiltinFunctionType) and not is_array(owner):
        return why_not_kind(function)
    if owner is not None and models.kind(owner) == "linen" and owner.scope is None and function.__name__ == "apply":
        return None  # it is given all that it computes from
    if models.kind(function) == "linen" or models.kind(owner) is not None:
        return Reason("bound_module")
    return NOT_FOLLOWED if is_users(function) and not private.is_staged(function) else None


def _is_copied(leaf: Any) -> bool:
    """Is it an array, which nothing writes to, an object that each repetition gets anew, or a value of JAX's own?"""
    home = type(leaf).__module__.partition(".")[0]
    return is_array(leaf) or home in ("jax", "jaxlib") or not jax.tree_util.all_leaves([leaf])


def _place(path: Sequence[Any]) -> tuple[str, str]:
    """Which argument a leaf is in, and where in that: the first key tells of which of the three."""
    of, *rest = path
    if of.idx == 0:
        return "", _dotted(rest)
    return str(getattr(rest[0], "idx", getattr(rest[0], "key", ""))), _dotted(rest[1:])


def _dotted(path: Sequence[Any]) -> str:
    steps = models.dotted(path)
    return f".{steps}" if steps else ""


def to_numpy(array: Any) -> Any:
    """The numbers of an array as float64 or complex128."""
    found = numpy.asarray(concrete(array))
    return found.astype(numpy.complex128 if numpy.iscomplexobj(found) else numpy.float64)
