"""Models under check: the arrays of a model become inputs, from which the program rebuilds the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax

from backprobe.backends.jax import models
from backprobe.backends.jax.arguments import exchange
from backprobe.backends.recheck import Program

OF_APPLY = ("rngs", "mutable", "capture_intermediates")  # arguments that linen's ``apply`` uses itself


@dataclass(frozen=True)
class TakenModel:
    """The differentiable part of a target, a function that runs a program with it, and a function to call at the
    end.
    """

    held: Any
    run: Callable[[Program, Any, Mapping[str, Any]], None]
    over: Callable[[], None] = lambda: None


def taken_apart(target: Any) -> TakenModel:
    """Split a target into its differentiable part, if it is a model, and functions that run programs with this part."""
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
    # Call a linen model with its variables first, as in ``apply``.
    first = "0" if "0" in inputs else "variables"
    rest = {name: value for name, value in inputs.items() if name not in (first, *OF_APPLY)}
    own = {name: inputs[name] for name in OF_APPLY if name in inputs}
    target.apply(inputs[first], method=lambda bound: program(bound, rest), **own)


def concrete(value: Any) -> Any:
    """Return the value behind a tracer of a derivative. Any other tracer is returned unchanged."""
    while isinstance(value, jax.core.Tracer) and hasattr(value, "primal"):
        value = value.primal
    return value
