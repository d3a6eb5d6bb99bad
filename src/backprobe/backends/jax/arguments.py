"""Making the arguments of a function differentiable: the leaves that are, and the arguments made of other leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy


def lift(
    inputs: Mapping[str, Any], wrt: frozenset[str] | None
) -> tuple[list[Any], Callable[[Sequence[Any]], Mapping[str, Any]]]:
    """The arrays to differentiate, and the arguments by name with others in their places.

    Every floating leaf is differentiated, Python and NumPy numbers included, or those of the arguments that ``wrt``
    names; integers only where nothing else is there. The same array given twice is one.
    """
    trees = {name: jax.tree.flatten(value) for name, value in inputs.items()}
    chosen = [leaf for name, (leaves, _) in trees.items() if wrt is None or name in wrt for leaf in leaves]
    integers_too = not any(map(_is_floating, chosen))
    arrays: list[Any] = []
    position: dict[int, int] = {}

    def place(leaf: Any, wanted: bool) -> Any:
        """The position of what takes the leaf's place, or what does."""
        if isinstance(leaf, numpy.ndarray) and not (wanted and _is_floating(leaf)):
            return jnp.asarray(leaf) if leaf.dtype.kind in "biufc" else leaf
        if not wanted or not (_is_floating(leaf) or (integers_too and type(leaf) is int)):
            return leaf
        known = position.get(id(leaf)) if isinstance(leaf, jax.Array | numpy.ndarray) else None
        if known is None:
            known = len(arrays)
            arrays.append(jnp.asarray(float(leaf) if type(leaf) is int else leaf))
            position[id(leaf)] = known
        return _At(known)

    placed = {
        name: (structure, [place(leaf, wrt is None or name in wrt) for leaf in leaves])
        for name, (leaves, structure) in trees.items()
    }

    def rebuilt(tracers: Sequence[Any]) -> Mapping[str, Any]:
        def filled(leaf: Any) -> Any:
            return tracers[leaf.position] if isinstance(leaf, _At) else leaf

        return {name: jax.tree.unflatten(structure, map(filled, own)) for name, (structure, own) in placed.items()}

    return arrays, rebuilt


class _At:
    """Stands for the array at a position."""

    def __init__(self, position: int) -> None:
        self.position = position


def _is_floating(leaf: Any) -> bool:
    if isinstance(leaf, jax.Array):
        return bool(jnp.issubdtype(leaf.dtype, jnp.inexact))
    if isinstance(leaf, numpy.ndarray | numpy.generic):
        return leaf.dtype.kind in "fc" or leaf.dtype.name == "bfloat16"
    return isinstance(leaf, float | complex)
