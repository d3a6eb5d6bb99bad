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
class TakenModel:
    """What of a target is differentiated besides its arguments, how to run a program with that, and what comes last."""

    held: Any
    run: Callable[[Program, Any, Mapping[str, Any]], None]
    over: Callable[[], None] = lambda: None


def taken_apart(target: Any) -> TakenModel:
    """A target, if it is a model, as what it holds and what is done with it."""
    kind = models.kind(target)
    if kind == "linen" and target.scope is None:
        return TakenModel(None, lambda program, held, inputs: _apply(target, program, inputs))
    if kind not in ("equinox", "nnx"):
        return TakenModel(None, lambda program, held, inputs: program(target, inputs))
    held, whole = models.taken_apart(target)
    after = []

    def run(program: Program, held: Any, inputs: Mapping[str, Any]) -> None:
        model = whole(held)
        program(model, inputs)
        after.append(exchange(models.changed(model), concrete))

    def over() -> None:
        for changed in after:
            models.change(target, changed)

    return TakenModel(held, run, over)


def _apply(target: Any, program: Program, inputs: Mapping[str, Any]) -> None:
    # A linen model gets its variables first, as ``apply`` does.
    first = "0" if "0" in inputs else "variables"
    rest = {name: value for name, value in inputs.items() if name not in (first, *OF_APPLY)}
    own = {name: inputs[name] for name in OF_APPLY if name in inputs}
    target.apply(inputs[first], method=lambda bound: program(bound, rest), **own)


def concrete(value: Any) -> Any:
    """The numbers behind a tracer of a derivative; of any other tracer that itself."""
    while isinstance(value, jax.core.Tracer) and hasattr(value, "primal"):
        value = value.primal
    return value
