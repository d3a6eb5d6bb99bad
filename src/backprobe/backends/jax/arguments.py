"""Makes the arguments of a function differentiable, and restores the caller's own containers afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy

from backprobe.backends.immutable import is_floating_number
from backprobe.backends.jax import models
from backprobe.backends.jax.tensors import is_floating
from backprobe.record.containers import exchanged


def is_pytree(value: Any) -> bool:
    """Is the value a pytree other than Python's own containers? JAX rebuilds such objects when it maps over their
    leaves.
    """
    plain = isinstance(value, dict | list | tuple) or value is None
    return not plain and not jax.tree_util.all_leaves([value])


def exchange(value: Any, replace: Callable[[Any], Any], made: Callable[[Any, Any], Any] = lambda leaf, new: new) -> Any:
    """Return the value with each leaf replaced. Python's own containers stay the same objects. Other pytrees are
    rebuilt, and only arrays are replaced in them; ``made`` receives the old and the new pytree, and returns the one to
    use.
    """

    def arrays_only(leaf: Any) -> Any:
        return replace(leaf) if isinstance(leaf, jax.Array | numpy.ndarray) else leaf

    def own(leaf: Any) -> Any:
        return made(leaf, jax.tree.map(arrays_only, leaf)) if is_pytree(leaf) else replace(leaf)

    return exchanged(value, own, [], is_pytree)


class Lifted:
    """The arguments of a program by name, and the leaves of the arguments that are differentiated.

    All floating-point leaves are differentiated, including Python and NumPy numbers, or only those of the arguments in
    ``wrt``. Python integers are differentiated only if there are no floating-point leaves. An array that is passed
    twice counts as two arguments, as for ``jax.grad``, because JAX distinguishes values and not objects. In a pytree,
    such as a model, only arrays can be differentiated. NumPy arrays of numbers become JAX arrays.
    """

    def __init__(self, inputs: Mapping[str, Any], wrt: frozenset[str] | None) -> None:
        self.inputs, self.wrt = inputs, wrt
        self.made: dict[int, tuple[Any, Any]] = {}  # pytrees rebuilt for the program, each with the original
        chosen: list[Any] = []
        for name, value in inputs.items():
            if wrt is None or name in wrt:
                exchange(value, lambda leaf: chosen.append(leaf) or leaf, lambda leaf, new: leaf)  # type: ignore[func-returns-value]  # a list's append gives None
        self._integers_too = not any(map(is_differentiable, chosen))
        self._originals = list(filter(self._is_lifted, chosen))
        self.states = {id(array): kind for array, kind in models.states(list(inputs.values()))}
        self.arrays = [jnp.asarray(float(leaf) if type(leaf) is int else leaf) for leaf in self._originals]

    def _is_lifted(self, leaf: Any) -> bool:
        return is_differentiable(leaf) or (self._integers_too and type(leaf) is int)

    def state(self, at: int) -> str | None:
        """Return Flax's name for the kind of this array, if a model holds the array and it is not a parameter; None
        otherwise.
        """
        return self.states.get(id(self._originals[at]))

    def filled(self, tracers: Sequence[Any]) -> Mapping[str, Any]:
        """Return the arguments with these tracers instead of the differentiated arrays."""
        given = iter(tracers)

        def own(leaf: Any) -> Any:
            return next(given) if self._is_lifted(leaf) else as_given(leaf)

        return {
            name: exchange(value, own if self.wrt is None or name in self.wrt else as_given, self._make)
            for name, value in self.inputs.items()
        }

    def _make(self, own: Any, new: Any) -> Any:
        self.made[id(new)] = new, self.made.get(id(own), (None, own))[1]
        return new

    def give_back(self, tracers: Sequence[Any], tapped: Callable[[Any], Any], concrete: Callable[[Any], Any]) -> None:
        """Restore the caller's own containers: the original arrays replace tracers, and numbers replace tracers that
        were added.
        """
        given = {
            id(one): original
            for tracer, original in zip(tracers, self._originals, strict=True)
            for one in (tracer, tapped(tracer))
        }

        def back(leaf: Any) -> Any:
            return given[id(leaf)] if id(leaf) in given else concrete(leaf)

        for value in self.inputs.values():
            exchange(value, back, lambda leaf, new: self.made.get(id(leaf), (None, new))[1])


def as_given(leaf: Any) -> Any:
    """Return the value that the program receives for a leaf that is not differentiated."""
    return jnp.asarray(leaf) if isinstance(leaf, numpy.ndarray) and leaf.dtype.kind in "biufc" else leaf


def is_differentiable(leaf: Any) -> bool:
    """Is the leaf a floating-point or complex array or number?"""
    return is_floating(leaf) or is_floating_number(leaf)
