"""The arguments of a function, written ``NAME=VALUE``: Python literals, of which nothing is evaluated."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from backprobe.errors import BadOption

SINGLE = {"f": "float32", "c": "complex64"}  # what PyTorch, too, makes of a list of Python numbers


def arguments(texts: Sequence[str]) -> dict[str, Any]:
    """The arguments by name. Raises BadOption.

    Where none of them is floating point, all integers are taken as floating, since something is to be differentiated.

    >>> arguments(["x=3", "w=2"])
    {'x': 3.0, 'w': 2.0}
    >>> arguments(["x=3.0", "turns=2"])
    {'x': 3.0, 'turns': 2}
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise BadOption(f"{text!r} is not of the form NAME=VALUE", asked=text, next="x=3")
        if name in found:
            raise BadOption(f"{name!r} is given twice", asked=" ".join(texts), next=text)
        found[name] = literal(name, value)
    return found if any(map(_is_floating, found.values())) else {name: _floating(v) for name, v in found.items()}


def literal(name: str, text: str) -> Any:
    """The value of a Python literal; a list of numbers becomes a NumPy array, which the backend takes over.

    >>> literal("x", "[1.0, 2]")
    array([1., 2.], dtype=float32)
    """
    import numpy

    try:
        value = ast.literal_eval(text)
        array = numpy.array(value) if isinstance(value, list) else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise BadOption(
            f"{text!r} is not a Python literal", asked=f"{name}={text}", found=_found(error),
            next=f"{name}=3.0, or {name}='[1.0, 2.0]' for a tensor",
        ) from error  # fmt: skip
    if array is None or array.dtype.kind not in "biufc":
        return value
    return array.astype(SINGLE[array.dtype.kind]) if array.dtype.kind in SINGLE else array


def _is_floating(value: Any) -> bool:
    return isinstance(value, float | complex) or getattr(getattr(value, "dtype", None), "kind", "") in ("f", "c")


def _floating(value: Any) -> Any:
    if type(value) is int:
        return float(value)
    return value.astype("float32") if getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u") else value


def _found(error: Exception) -> str:
    """Why text is not a literal; Python's own message shows the address of a syntax tree node, NumPy's is long."""
    if isinstance(error, SyntaxError):
        return error.msg
    if "malformed node" in str(error):
        return "a name or an expression"
    return "nested lists of different lengths" if "inhomogeneous shape" in str(error) else str(error)
