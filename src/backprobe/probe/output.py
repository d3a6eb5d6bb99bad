"""The tensor of a return value that is differentiated, and its cotangent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from backprobe.backends.tensors import Tensors
from backprobe.errors import BadOutput, NothingToDifferentiate
from backprobe.record.containers import at_path, leaves
from backprobe.record.names import nearest

SUMMED = object()
"""The cotangent that is 1 everywhere, whatever the shape of the output."""


@dataclass(frozen=True)
class Output:
    """The tensor to differentiate, its path in the return value (None if computed from it), and the cotangent."""

    tensor: Any
    path: str | None
    cotangent: Any


@dataclass(frozen=True)
class Words:
    """How messages name the holder of the output, and what they suggest for a scalar, or for a real number."""

    holder: str = "the return value"
    scalar: str = "of=lambda result: result[{at}]"
    real: str = "of=lambda result: abs(result)"


RETURNED = Words()


def choose(
    result: Any, of: str | int | Callable[[Any], Any] | None, cotangent: Any, tape: Tensors, words: Words = RETURNED
) -> Output:
    """The output of a program. Raises BadOutput or NothingToDifferentiate."""
    floating = [(path, leaf) for path, leaf in leaves(result) if tape.is_tensor(leaf) and tape.is_floating(leaf)]
    if of is None:
        path, tensor = _only(result, floating, tape, words)
    elif callable(of):
        path, tensor = None, of(result)
    else:
        path, tensor = _at(result, str(of), floating, words)
    if not tape.is_tensor(tensor) or not tape.is_floating(tensor):
        raise BadOutput(
            "the selected output is not a floating-point tensor", asked=f"of={of!r}",
            found=f"{type(tensor).__name__}", next=_choices(floating),
        )  # fmt: skip
    if not tape.is_differentiated(tensor):
        raise NothingToDifferentiate(
            "the output does not depend on any differentiated value",
            asked=f"the gradients of {words.holder}" + (f" at {path.lstrip('.')!r}" if path else ""),
            found="an output without history",
            why="no argument or parameter requires a gradient, or the graph was cut on the way "
            "(detach, no_grad, stop_gradient)",
            next="requires_grad_() on a PyTorch input or parameter; in the function form, remove what cuts the graph",
        )
    return Output(tensor, path, weighed(tensor, cotangent, tape, words))


def _only(result: Any, floating: list[tuple[str, Any]], tape: Tensors, words: Words) -> tuple[str, Any]:
    connected = [(path, leaf) for path, leaf in floating if tape.is_differentiated(leaf)]
    distinct = {id(leaf): (path, leaf) for path, leaf in reversed(connected or floating)}
    if len(distinct) == 1:
        return next(iter(distinct.values()))
    if not floating:
        raise BadOutput(
            f"{words.holder} holds no floating tensor", found=f"{type(result).__name__}",
            why="a gradient is the derivative of a floating output", next="return a tensor made from the arguments",
        )  # fmt: skip
    raise BadOutput(
        f"{words.holder} holds several floating tensors", asked="their gradient",
        found=", ".join(path.lstrip(".") for path, _ in connected or floating),
        why="a gradient is of one output",
        next=_choices(connected or floating),
    )  # fmt: skip


def _at(result: Any, of: str, floating: list[tuple[str, Any]], words: Words) -> tuple[str, Any]:
    try:
        return f".{of}", at_path(result, of)
    except KeyError as error:
        paths = [path.lstrip(".") for path, _ in floating]
        close = nearest(of, paths) or paths
        raise BadOutput(
            f"{words.holder} has nothing at {of!r}", asked=f"of={of!r}",
            found=f"{type(result).__name__} with {', '.join(paths) or 'no floating tensor'}; no {error}",
            next=f"of={close[0]!r}" if close else "return a tensor",
        ) from error  # fmt: skip


def _choices(floating: list[tuple[str, Any]]) -> str:
    named = [f"of={path.lstrip('.')!r}" for path, _ in floating if path][:8]
    return ", or ".join(named) if named else "of=lambda result: ..., a floating tensor made from it"


def weighed(tensor: Any, cotangent: Any, tape: Tensors, words: Words = RETURNED) -> Any:
    """The cotangent for an output, None where that needs none. Raises BadOutput."""
    shape, dtype, _ = tape.describe(tensor)
    if cotangent is SUMMED:
        import numpy

        return None if shape is None else tape.cotangent(tensor, numpy.ones(shape))
    if cotangent is None:
        if str(dtype).startswith("complex"):
            raise BadOutput(
                "the output is complex", asked="its gradient", found=f"dtype {dtype}",
                why="only a real scalar has one gradient",
                next=f"cotangent=1.0, or {words.real}",
            )  # fmt: skip
        if shape is None or math.prod(shape) != 1:
            raise BadOutput(
                "the output is not a scalar", asked="its gradient", found=f"shape {shape}",
                why="only a scalar has one gradient; any other output needs the vector of a vector-Jacobian product",
                next=f"cotangent=numpy.ones({shape}), or "
                + words.scalar.format(at=", ".join("0" * len(shape or ()))),
            )  # fmt: skip
        return None
    made = tape.cotangent(tensor, cotangent)
    if tape.describe(made).shape != shape:
        raise BadOutput(
            "the cotangent's shape differs from the output's", asked=f"cotangent of shape {tape.describe(made).shape}",
            found=f"output of shape {shape}", next=f"a cotangent of shape {shape}",
        )  # fmt: skip
    return made
