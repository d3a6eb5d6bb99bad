"""Models that are checked: what a model holds becomes an input of the program, and the model is put together of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from backprobe.backends.jax import models
from backprobe.backends.jax.arguments import exchange

OF_APPLY = ("rngs", "mutable", "capture_intermediates")  # what ``apply`` of linen keeps for itself

Program = Callable[[Any, Mapping[str, Any]], None]
"""A program of a target and its inputs: those with a number for a name are positional."""


@dataclass(frozen=True)
class Taken:
    """What of a target is differentiated besides its arguments, how to run a program with that, and what comes last."""

    held: Any
    run: Callable[[Program, Any, Mapping[str, Any]], None]
    over: Callable[[], None] = lambda: None


def taken_apart(target: Any) -> Taken:
    """A target, if it is a model, as what it holds and what is done with it."""
    kind = models.kind(target)
    if kind == "equinox":
        return Taken(target, lambda program, held, inputs: program(held, inputs))
    if kind == "nnx":
        return _nnx(target)
    if kind == "linen" and target.scope is None:
        return Taken(None, lambda program, held, inputs: _apply(target, program, inputs))
    return Taken(None, lambda program, held, inputs: program(target, inputs))


def _nnx(target: Any) -> Taken:
    from flax import nnx

    graph, state = nnx.split(target)
    after = []

    def merged(program: Program, held: Any, inputs: Mapping[str, Any]) -> None:
        model = nnx.merge(graph, held)
        program(model, inputs)
        after.append(exchange(nnx.state(model), concrete))

    def over() -> None:
        """The model's own variables change as a plain call would have changed them."""
        for changed in after:
            nnx.update(target, changed)

    return Taken(state, merged, over)


def _apply(target: Any, program: Program, inputs: Mapping[str, Any]) -> None:
    """A linen model gets its variables first, as ``apply`` does."""
    first = "0" if "0" in inputs else "variables"
    rest = {name: value for name, value in inputs.items() if name not in (first, *OF_APPLY)}
    own = {name: inputs[name] for name in OF_APPLY if name in inputs}
    target.apply(inputs[first], method=lambda bound: program(bound, rest), **own)


def concrete(value: Any) -> Any:
    """The numbers behind a tracer of a derivative; of any other tracer that itself."""
    while isinstance(value, jax.core.Tracer) and hasattr(value, "primal"):
        value = value.primal
    return value
