"""Replaces values and gradients of a program while JAX linearizes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy
from jax.custom_derivatives import SymbolicZero

from backprobe.backends.capabilities import Replaces
from backprobe.backends.jax.bridging import bridged
from backprobe.backends.jax.primitives import Tap, as_array
from backprobe.backends.jax.tensors import is_array
from backprobe.record.held import Lost
from backprobe.record.reasons import Reason

UNSEEN = Lost(Reason("original_unseen"))


@jax.custom_jvp
def with_tangent(value: Any, other: Any) -> Any:
    """Return a value with the tangent of another one. The value is unchanged bit for bit, unlike in ``value + zero``
    for -0.0.
    """
    return value


@with_tangent.defjvp
def _its_tangent(primals: Any, tangents: Any) -> Any:
    return primals[0], tangents[1]


@jax.custom_jvp
def differentiated(value: Any, zero: Any, original: Any) -> Any:
    """Return the value, which keeps its own tangent. If it has no tangent, but the ``original`` that it replaces has
    one, it gets the tangent of ``zero``.

    Traced values get their tangents later. In a loop, they get them once it is known what the loop carries.
    """
    return value


@partial(differentiated.defjvp, symbolic_zeros=True)
def _own_tangent(primals: Any, tangents: Any) -> Any:
    own, zero, original = tangents
    is_constant = isinstance(own, SymbolicZero) and not isinstance(original, SymbolicZero)
    return primals[0], zero if is_constant else own


def changed(tensor: Any, change: Callable[[Any], Any]) -> Any:
    """Return the tensor with a gradient that a function changes. The function receives the conjugate of JAX's
    gradient.
    """

    @jax.custom_vjp
    def identity(value: Any) -> Any:
        return value

    def backward(_: Any, gradient: Any) -> Any:
        return (jnp.conj(change(jnp.conj(gradient))),)

    identity.defvjp(lambda value: (value, None), backward)
    return identity(tensor)


class JaxReplaces(Replaces):
    """Implements ``Replaces`` for JAX."""

    compared = ("shape", "dtype")  # traced values are not on a device

    seed: Any
    """A zero that is differentiated."""

    depth: int
    changes: dict[int, Callable[[Any], Any]]
    """The functions that change gradients, by the id of the value with which the program continues."""

    kept: list[Any]
    """Objects that are kept alive, because Python may reuse the ids of dead objects."""

    tap: Callable[[Any], Any]
    capture: Callable[..., Tap]
    is_differentiated: Callable[[Any], bool]

    def handed(self, tensor: Any) -> Any:
        return tensor

    def as_tensor(self, new: Any, like: Any) -> Any:
        if is_array(new):
            return new
        if isinstance(new, numpy.ndarray | numpy.generic):
            return jnp.asarray(new)
        return jnp.asarray(new, like.dtype) if isinstance(new, bool | int | float | complex) else None

    def instead(self, new: Any, original: Any, is_given: bool) -> Any:
        is_traced = isinstance(original, jax.core.Tracer) and jnp.issubdtype(new.dtype, jnp.inexact)
        if is_traced and (self.depth or not isinstance(new, jax.core.Tracer)):
            return differentiated(new, jnp.broadcast_to(self.seed.astype(new.dtype), new.shape), original)
        return jnp.copy(new) if is_given else new

    def mixed(self, new: Any, original: Any, index: tuple[Any, ...]) -> Any:
        return jnp.asarray(original).at[index].set(new[index])

    def like(self, array: Any, tensor: Any) -> Any:
        return jnp.asarray(array, tensor.dtype)

    def with_numbers(self, new: Any, original: Any) -> Any:
        return with_tangent(new, original) if isinstance(original, jax.core.Tracer) else jnp.copy(new)

    def linked(self, value: Any, sources: Sequence[Any]) -> Any | None:
        return bridged(value, [*sources])

    def original_value(self, tensor: Any) -> Callable[[], Any]:
        if not isinstance(tensor, jax.core.Tracer):
            return lambda: tensor
        tap = self.capture(self.tap(tensor), lambda: ((), False))
        return lambda: UNSEEN if tap.opaque or tap.lost or tap.value is None else as_array(tap.value)

    def with_gradient(self, tensor: Any, change: Callable[[Any], Any]) -> Any:
        if not isinstance(tensor, jax.core.Tracer):
            return tensor
        made = changed(tensor, change)
        self.changes[id(made)] = change
        self.kept.append(made)
        return made

    def runs_again(self) -> bool:
        return False  # traced code runs again exactly as it was traced

    def is_tracing(self) -> bool:
        return self.depth > 0
