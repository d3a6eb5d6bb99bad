"""The primitives that mark values of a program. They survive jit, scan, vmap and remat, and compute the identity
function.

- ``tap`` marks a value. When the program is linearized, it leaves ``mark`` in the linear program, through which the
  tangent of the value flows. ``mark`` can store the cotangent that arrives.
- ``peek`` reports a value.
- ``perturb`` adds another tangent to the tangent of a value, if the value has one. It leaves ``within``, which marks
  the value inside a loop, checkpoint or branch of the linear program.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import jax.numpy as jnp
from jax import Array
from jax.core import Tracer
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from backprobe.backends.jax import private
from backprobe.record.entries import GradStatus
from backprobe.record.reasons import Reason

KEYS = itertools.count(1)


@dataclass(eq=False)
class Tap:
    """One marked value, and the facts that become known about it while the program is traced."""

    level: Any = None  # the trace that linearizes the value; None while JAX is still tracing it
    tapped: Any = None  # the tracer or array that represents the value in the program
    outside: Any = None  # represents the value outside of the loop, checkpoint or branch that contains it
    key: int = field(default_factory=lambda: next(KEYS))
    value: Any = None  # the numbers, once they were read
    axes: tuple[str, ...] = ()  # the meaning of the leading axes, if the value is computed in a loop or a batch
    has_tangent: bool = False
    captured: bool = False
    ran: Any = None  # inside a branch: whether the branch ran, for each step of the loops around it
    lost: bool = False  # does the value belong to a run that JAX has discarded?
    dtype: Any = None
    reads: Sequence[Tap] = ()  # the values that the value's expression mentions
    unrecorded: bool = False  # does the expression mention a differentiated value that was not selected?
    is_computed: bool | None = None  # do the numbers depend on differentiated values? None if unknown
    status: GradStatus = GradStatus.OK  # OK if the value has a tangent, else why it has none
    why: Reason | None = None
    opaque: Reason | None = None  # why backprobe cannot observe how the value is computed
    state: str | None = None  # for an input that a Flax model holds besides its parameters: Flax's name for it
    change: Callable[[Any], Any] | None = None  # computes the gradient that replaces the value's gradient

    def settle(self) -> None:
        """Set the status that the value has if it does not depend on any differentiated value.

        While JAX traces the body of a loop or branch, this is not yet known for the values that the body reads.
        """
        if not jnp.issubdtype(self.dtype, jnp.inexact):
            self.status, self.why = GradStatus.NOT_FLOAT, Reason("dtype", {"dtype": str(self.dtype)})
        # a shape or random numbers, for example, do not depend on differentiated values, even if their line mentions
        # some
        elif self.is_computed is False:
            self.status, self.why = GradStatus.FROZEN, Reason("frozen")
        elif self.unrecorded or any(read.has_tangent for read in self.reads):
            self.status, self.why = GradStatus.DETACHED, Reason("no_history")
        elif any(read.status is GradStatus.DETACHED for read in self.reads):
            self.status, self.why = GradStatus.DETACHED, Reason("inherited", {"status": str(GradStatus.DETACHED)})
        elif self.is_computed:
            self.status, self.why = GradStatus.DETACHED, Reason("no_history")
        else:
            self.status, self.why = GradStatus.FROZEN, Reason("frozen")

    @property
    def is_hidden(self) -> bool:
        """Does the value belong to a transformation that backprobe cannot look into?"""
        return self.opaque is not None and not self.lost


TAPS: WeakValueDictionary[int, Tap] = WeakValueDictionary()
"""The taps of open recordings, by key. A jaxpr may outlive the recording for which it was traced."""


def primitive(name: str) -> Primitive:
    """Return a new primitive that computes the identity of its first operand."""
    made = Primitive(f"backprobe_{name}")
    made.def_impl(lambda x, *rest, **params: x)
    made.def_abstract_eval(lambda x, *rest, **params: x)
    mlir.register_lowering(made, lambda context, x, *rest, **params: [x])
    return made


tap_p, mark_p, peek_p, perturb_p, within_p = map(primitive, ("tap", "mark", "peek", "perturb", "within"))
# The parameter of these primitives is not named ``key``, because a cache in JAX 0.7 has an argument with that name.


def _is_ours(key: int, primal: Any) -> bool:
    # Does this rule run at the level that linearizes the tapped value, and not at an inner level?
    tap = TAPS.get(key)
    return tap is not None and tap.level is not None and private.carried(primal, tap.level) is None


def traces_around(trace: Any) -> Iterator[Any]:
    """Yield the transformations around this one, innermost first."""
    while (trace := getattr(trace, "parent_trace", None)) is not None:
        yield trace


def _tap_jvp(primals: Any, tangents: Any, *, tap_key: int, batch: int) -> Any:
    (x,), (tangent,) = primals, tangents
    if type(tangent) is ad.Zero or not _is_ours(tap_key, x):
        return tap_p.bind(x, tap_key=tap_key, batch=batch), tangent
    TAPS[tap_key].has_tangent = True
    return x, mark_p.bind(tangent, tap_key=tap_key)


def _tap_linearized(x: Any, *, tap_key: int, batch: int) -> tuple[Any, Callable[[Any], Any]]:
    if not _is_ours(tap_key, x):
        return tap_p.bind(x, tap_key=tap_key, batch=batch), lambda tangent: tangent
    TAPS[tap_key].has_tangent = True
    return x, lambda tangent: mark_p.bind(tangent, tap_key=tap_key)


def _mark_transposed(
    cotangent: Any, tangent: Any, *, tap_key: int, gradients: dict[int, Any] | None = None
) -> list[Any]:
    if gradients is not None:
        gradients[tap_key] = cotangent
    return [cotangent]


def _peek_jvp(primals: Any, tangents: Any, *, tap_key: int, batch: int) -> Any:
    (x,), (tangent,) = primals, tangents
    if _is_ours(tap_key, x):
        TAPS[tap_key].value, TAPS[tap_key].axes = x, ("batch",) * batch
    else:
        peek_p.bind(x, tap_key=tap_key, batch=batch)
    return x, tangent


def _perturb_jvp(primals: Any, tangents: Any, *, tap_key: int) -> Any:
    (x, eps), (tangent, own) = primals, tangents
    tap = TAPS.get(tap_key)
    if type(tangent) is ad.Zero or type(own) is ad.Zero or tap is None:
        return perturb_p.bind(x, eps, tap_key=tap_key), tangent
    tap.has_tangent = True
    return perturb_p.bind(x, eps, tap_key=tap_key), within_p.bind(ad.add_tangents(tangent, own), tap_key=tap_key)


def _leading(primitive: Primitive) -> Callable[..., Any]:
    # Return a batching rule for ``vmap`` that moves the axis of the examples to the front.
    def rule(operands: Any, axes: Any, *, tap_key: int, batch: int) -> Any:
        x = jnp.moveaxis(operands[0], axes[0], 0)
        return primitive.bind(x, tap_key=tap_key, batch=batch + 1), 0

    return rule


def _perturb_batched(operands: Any, axes: Any, *, tap_key: int) -> Any:
    (x, eps), (of_x, of_eps) = operands, axes
    size = x.shape[of_x] if of_x is not None else eps.shape[of_eps]

    def leading(operand: Any, axis: int | None) -> Any:
        return jnp.broadcast_to(operand, (size, *operand.shape)) if axis is None else jnp.moveaxis(operand, axis, 0)

    return perturb_p.bind(leading(x, of_x), leading(eps, of_eps), tap_key=tap_key), 0


def concrete(level: Any, value: Any) -> Any:
    """Return a value as it is outside of the level that linearizes it. Any other value is returned unchanged."""
    is_its_own = isinstance(value, Tracer) and private.trace_of(value) is level
    return private.primal(value) if is_its_own else value


def as_array(value: Any) -> Any:
    """Return a value as a JAX array. Constants of traced code may have an internal type."""
    return value if isinstance(value, Array) else jnp.asarray(value)


ad.primitive_jvps[tap_p] = _tap_jvp
ad.primitive_jvps[peek_p] = _peek_jvp
ad.primitive_jvps[perturb_p] = _perturb_jvp
ad.deflinear2(mark_p, _mark_transposed)
ad.deflinear2(within_p, lambda cotangent, tangent, *, tap_key: [cotangent])
private.linearized_by(tap_p, _tap_linearized)
batching.primitive_batchers[tap_p] = _leading(tap_p)
batching.primitive_batchers[peek_p] = _leading(peek_p)
batching.primitive_batchers[perturb_p] = _perturb_batched
batching.primitive_batchers[mark_p] = lambda operands, axes, **params: (mark_p.bind(*operands, **params), axes[0])
batching.primitive_batchers[within_p] = lambda operands, axes, **params: (within_p.bind(*operands, **params), axes[0])
