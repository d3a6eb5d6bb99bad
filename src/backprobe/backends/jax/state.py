"""State that a JAX program changes: Flax NNX variables, references, and Equinox states, which can be used only once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import jax

from backprobe.backends.jax.arguments import is_pytree
from backprobe.backends.kept import Kept, assign
from backprobe.backends.patching import listening
from backprobe.backends.replay import State

REF: Any = getattr(jax, "Ref", ())  # missing in older releases of JAX
VALUE = "_raw_value", "raw_value"  # names of the field that holds a variable's value, in different releases of Flax


class JaxState(State):
    """Implements ``State`` for JAX. Functions are pure and random keys are arguments, so there is little to restore."""

    def is_known(self, value: Any) -> bool:
        return type(value).__module__.partition(".")[0] in ("jax", "jaxlib", "flax", "equinox") or is_pytree(value)

    @contextmanager
    def hearing(self, kept: Kept, seed: int | None) -> Iterator[None]:
        nnx = sys.modules.get("flax.nnx")
        for one in self.reached:
            if isinstance(one, REF):
                _keep_reference(one, kept)
            elif nnx is not None and nnx.graphlib.is_graph_node(one):
                _keep_object(nnx, one, kept)
            elif _is_state_of_equinox(one):
                _keep_attributes(one, kept)
        with ExitStack() as entered:
            if nnx is not None:
                entered.enter_context(listening(nnx.Variable, "__setattr__", partial(_written, kept)))
            yield


def _keep_object(nnx: Any, value: Any, kept: Kept) -> None:
    # Save everything that a call may change in a model or optimizer, including its modes.
    for _, part in nnx.iter_graph(value):
        if isinstance(part, nnx.Variable):
            keep(part, kept)
        elif nnx.graphlib.is_graph_node(part) and isinstance(getattr(part, "__dict__", None), dict):
            _keep_attributes(part, kept)


def _keep_attributes(owner: Any, kept: Kept) -> None:
    if kept.is_new(owner):
        own = vars(owner)
        kept.undo.append(partial(assign, own, dict(own)))


def _keep_reference(reference: Any, kept: Kept) -> None:
    if kept.is_new(reference):
        value = reference[...]
        kept.undo.append(lambda: reference.__setitem__(..., value))


def _is_state_of_equinox(value: Any) -> bool:
    # Is the value an Equinox state? Each write to a state creates a new state and invalidates the old one.
    kind = getattr(getattr(sys.modules.get("equinox"), "nn", None), "State", None)
    return kind is not None and isinstance(value, kind)


def keep(variable: Any, kept: Kept) -> None:
    """Save the value of a variable, unless it was saved before."""
    name = next(one for one in VALUE if one in dir(type(variable)))
    if kept.is_new(variable):
        value = object.__getattribute__(variable, name)
        kept.undo.append(lambda: object.__setattr__(variable, name, value))


def _written(kept: Kept, following: Callable[..., Any], variable: Any, name: str, value: Any, /) -> None:
    keep(variable, kept)
    following(variable, name, value)
