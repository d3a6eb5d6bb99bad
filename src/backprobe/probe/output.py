"""Finds the tensor to differentiate in a return value, and its cotangent."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from backprobe.backends.dialects import dialect_of
from backprobe.backends.tensors import Tensors
from backprobe.errors import BadOutput, NoSource, NothingToDifferentiate
from backprobe.probe.suggestions import alike
from backprobe.record.brief import LONGEST, kind, place, written
from backprobe.record.containers import at_path, children, leaves
from backprobe.record.names import quote
from backprobe.source.locate import locate

SUMMED = object()
"""Used as a cotangent: 1 everywhere, in the shape of the output."""


@dataclass(frozen=True)
class Weighing:
    """A cotangent that depends on the output: ``weigh`` computes it once the output exists.

    ``is_used`` is False if nothing is differentiated; then an output without a history is no error.
    """

    weigh: Callable[[Any], Any]
    is_used: bool = True


@dataclass(frozen=True)
class ProbedOutput:
    """The tensor to differentiate, its path in the return value, and the cotangent.

    The path is None if the tensor was computed from the return value, or is not in it. ``name`` is given if the output
    is not named after the return value, as for an element.
    """

    tensor: Any
    path: str | None
    cotangent: Any
    name: str | None = None


@dataclass(frozen=True)
class Words:
    """The words for messages about an output: the name of the value that contains it, and suggestions for a scalar or a
    real number.

    ``key`` is the key of the output if there are several.
    """

    holder: str = "the return value"
    scalar: str = "of=lambda result: result[{at}]"
    real: str = "of=lambda result: abs(result)"
    framework: str = ""
    key: str | None = None

    @property
    def gradient(self) -> str:
        """Return the words for the requested gradient."""
        return "its gradient" if self.key is None else f"the gradient of {self.key!r}"

    def ones(self, shape: object) -> str:
        """Return the code for a tensor of ones. Without a framework it uses NumPy: a graph takes any array."""
        return (dialect_of(self.framework).ones if self.framework else "numpy.ones({})").format(shape)

    def cotangent(self, text: str) -> str:
        """Return the code of the option that gives this cotangent to the output."""
        return f"cotangent={text}" if self.key is None else f"cotangent={{{self.key!r}: {text}}}"


RETURNED = Words()
NOTHING = object()
POSITION = re.compile(r"-?\d+")


def choose(
    result: Any,
    of: str | int | Callable[[Any], Any] | None,
    cotangent: Any,
    tape: Tensors,
    words: Words = RETURNED,
    names: Callable[[], Collection[str]] = tuple,
) -> ProbedOutput:
    """Choose the output from a program's result. The names are used for suggestions. Raises BadOutput or
    NothingToDifferentiate.
    """
    floating = [(path, leaf) for path, leaf in leaves(result) if tape.is_tensor(leaf) and tape.is_floating(leaf)]
    if of is None:
        path, tensor = _only(result, floating, tape, words)
    elif callable(of):
        path, tensor = None, of(result)
    elif isinstance(of, int) or POSITION.fullmatch(of):
        path, tensor = _at_position(result, int(of), floating, tape, words)
    else:
        path, tensor = _at(result, of, floating, tape, words, names)
    if path and not callable(of) and "`" not in path and words.scalar == RETURNED.scalar:
        words = replace(words, scalar=f"of={path.removeprefix('.') + '[{at}]'!r}")
    return differentiated(tensor, path, of, floating, cotangent, tape, words)


def differentiated(
    tensor: Any, path: str | None, of: Any, floating: list[tuple[str, Any]], cotangent: Any, tape: Tensors, words: Words
) -> ProbedOutput:
    """Check a tensor and use it as the output. Raises BadOutput or NothingToDifferentiate."""
    if not tape.is_tensor(tensor) or not tape.is_floating(tensor):
        raise BadOutput(
            "the selected output is not a floating-point tensor",
            asked=f"of={written(of)}",
            found=_kind(tensor, tape),
            next=_choices(floating),
        )
    is_used = not isinstance(cotangent, Weighing) or cotangent.is_used
    if is_used and not tape.is_differentiated(tensor):
        if callable(of) and any(tape.is_differentiated(leaf) for _, leaf in floating):
            raise _cut_by(of, words)
        why, next = dialect_of(words.framework).cut_off
        raise NothingToDifferentiate(
            "the output does not depend on any differentiated value",
            asked=f"the gradients of {words.holder}" + (f" at {path.lstrip('.')!r}" if path else ""),
            found="an output without history",
            why=why,
            next=next if words.key is None else f"leave {words.key!r} out of of=; or {next}",
        )
    return ProbedOutput(tensor, path, weighed(tensor, cotangent, tape, words))


def _cut_by(of: Callable[[Any], Any], words: Words) -> NothingToDifferentiate:
    # Return the error about a function in ``of=`` whose argument has a gradient history, and whose result has none.
    code, name, typed = getattr(of, "__code__", None), written(of), _typed(of)
    given = "x" if typed else "f this function and x"
    return NothingToDifferentiate(
        f"of= cuts the output off: {words.holder} has a gradient history, and what of= makes of it has none",
        asked=f"of={name}",
        found=name if code is None else f"{name}, {place(code.co_filename, code.co_firstlineno)}",
        why="it does not use what it is given, or lets no gradient through",
        next=f"bp.probe({typed or 'f'})(x), with {given} the value given to it: it names the line that cuts x off",
    )


def _typed(function: Callable[[Any], Any]) -> str:
    # Return the text to type for a function: its name, or the text of a lambda. Empty if there is neither, or if the
    # text is long.
    code, name = getattr(function, "__code__", None), written(function)
    if name.isidentifier() or not isinstance(code, CodeType):
        return name if name.isidentifier() else ""
    try:
        text = ast.unparse(locate(code).node)
    except NoSource:
        return ""
    return text if len(text) <= LONGEST else ""


def _only(result: Any, floating: list[tuple[str, Any]], tape: Tensors, words: Words) -> tuple[str, Any]:
    connected = [(path, leaf) for path, leaf in floating if tape.is_differentiated(leaf)]
    distinct = {id(leaf): (path, leaf) for path, leaf in reversed(connected or floating)}
    if len(distinct) == 1:
        return next(iter(distinct.values()))
    if not floating:
        raise BadOutput(
            f"{words.holder} holds no floating tensor",
            found=_kind(result, tape),
            why="a gradient is the derivative of a floating output",
            next="return a tensor made from the arguments",
        )
    raise BadOutput(
        f"{words.holder} holds several floating tensors",
        asked="their gradient",
        found=", ".join(path.lstrip(".") for path, _ in connected or floating),
        why="a gradient is of one output",
        next=_choices(connected or floating),
    )


def _at(
    result: Any,
    of: str,
    floating: list[tuple[str, Any]],
    tape: Tensors,
    words: Words,
    names: Callable[[], Collection[str]],
) -> tuple[str, Any]:
    try:
        return f".{of}", at_path(result, of)
    except KeyError as error:
        paths = [path.lstrip(".") for path, _ in floating if path]
        close, inside = alike(of, result, paths, names())
        otherwise = "leave out of=" if floating else "return a tensor made from the arguments"
        raise BadOutput(
            f"{words.holder} has nothing at {of!r}" + (", and no value has that name" if inside else ""),
            asked=f"of={of!r}",
            found=_kind(result, tape)
            + (f" with {', '.join(paths)}; no {error}" if paths else "")
            + (f"; the nearest names: {', '.join(inside)}" if inside else ""),
            next=f"of={close[0]!r}" if close else otherwise,
        ) from error


def _at_position(
    result: Any, position: int, floating: list[tuple[str, Any]], tape: Tensors, words: Words
) -> tuple[str, Any]:
    # Return the item of a return value at a position, which may be negative. Raises BadOutput. Some result classes,
    # such as the ModelOutput of transformers, are not sequences, but have ``to_tuple``.
    has_positions = isinstance(result, list | tuple) or hasattr(result, "to_tuple")
    inside = children(result) or [] if has_positions else []
    key, value = inside[position] if -len(inside) <= position < len(inside) else (str(position), NOTHING)
    if value is NOTHING:
        try:
            value = at_path(result, key)
        except KeyError as error:
            raise BadOutput(
                f"{words.holder} has nothing at position {position}",
                asked=f"of={position}",
                found=_kind(result, tape) + (f" of {len(inside)}" if has_positions else ""),
                why="a position counts the items of a tuple or list, from 0, or from -1 at the end",
                next=_choices(floating) if any(path for path, _ in floating) else "leave out of=",
            ) from error
    return f".{quote(key)}", value


def _kind(value: Any, tape: Tensors) -> str:
    # Describe a value, in words that are the same in every framework and during tracing.
    if not tape.is_tensor(value):
        return kind(value)
    known = tape.describe(value)
    return f"a tensor of shape {known.shape} and dtype {known.dtype}"


def _choices(floating: list[tuple[str, Any]]) -> str:
    named = [f"of={path.lstrip('.')!r}" for path, _ in floating if path][:8]
    return ", or ".join(named) if named else "of=lambda result: ..., a floating tensor made from it"


def weighed(tensor: Any, cotangent: Any, tape: Tensors, words: Words = RETURNED) -> Any:
    """Return the cotangent for an output; None if it needs none. Raises BadOutput if the cotangent does not fit."""
    shape, dtype, _ = tape.describe(tensor)
    if cotangent is SUMMED:
        import numpy

        return None if shape is None else tape.cotangent(tensor, numpy.ones(shape))
    if isinstance(cotangent, Weighing):
        return tape.cotangent(tensor, cotangent.weigh(tape.concrete(tensor)))
    if cotangent is None:
        _refuse_not_scalar(shape, str(dtype), words)
        return None
    if _is_complex(cotangent) and not str(dtype).startswith("complex"):
        raise BadOutput(
            "the cotangent is complex, and the output is not",
            asked=f"cotangent={written(cotangent)}",
            found=f"an output of dtype {dtype}",
            next="a cotangent of real numbers",
        )
    made = tape.cotangent(tensor, cotangent)
    if tape.describe(made).shape != shape:
        raise BadOutput(
            "the cotangent's shape differs from the output's",
            asked=f"cotangent of shape {tape.describe(made).shape}",
            found=f"output of shape {shape}",
            next=f"a cotangent of shape {shape}",
        )
    return made


def _refuse_not_scalar(shape: tuple[int, ...] | None, dtype: str, words: Words) -> None:
    # Raise BadOutput for an output that has not exactly one element, or is complex.
    if dtype.startswith("complex"):
        raise BadOutput(
            "the output is complex",
            asked=words.gradient,
            found=f"dtype {dtype}",
            why="only a real scalar has one gradient",
            next=f"{words.cotangent('1.0')}, or {words.real}",
        )
    if shape is not None and math.prod(shape) == 0:
        raise BadOutput(
            "the output has no elements",
            asked=words.gradient,
            found=f"shape {shape}",
            why="a gradient is the derivative of a number",
            next="an output that is computed from one element or more",
        )
    if shape is None or math.prod(shape) != 1:
        raise BadOutput(
            "the output is not a scalar",
            asked=words.gradient,
            found=f"shape {shape}",
            why="only a scalar has one gradient; any other output needs the vector of a vector-Jacobian product",
            next=words.cotangent(words.ones(shape))
            + ", or "
            + words.scalar.format(at=", ".join("0" * len(shape or ()))),
        )


def _is_complex(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_complex, value))
    return isinstance(value, complex) or "complex" in str(getattr(value, "dtype", ""))
