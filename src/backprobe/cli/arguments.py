"""Parses the arguments of a function, written ``NAME=VALUE``. A value is never evaluated as code."""

from __future__ import annotations

import ast
import math
import re
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from backprobe.errors import BadOption

SINGLE = {"f": "float32", "c": "complex64"}  # PyTorch converts lists of Python numbers to the same dtypes
NUMBERS = {"nan": math.nan, "inf": math.inf}
SHAPED = ("randn", "zeros", "ones")
# constants of other languages: parsed as text, they would surprise the user
CONSTANTS = {"true": "True", "false": "False", "none": "None", "null": "None"}
WORD = re.compile(r"[^\W\d][\w ./:+-]*")
"""Matches text that needs no quotes, such as ``mean`` or ``data/train.csv``."""


def arguments(texts: Sequence[str]) -> dict[str, Any]:
    """Return the arguments by name. Raises BadOption.

    >>> arguments(["x=3.0", "turns=2", "mode=mean"])
    {'x': 3.0, 'turns': 2, 'mode': 'mean'}
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            example = f"{text}=3" if text.isidentifier() else "x=3"
            raise BadOption(f"{text!r} is not of the form NAME=VALUE", asked=text, next=example)
        if name in found:
            raise BadOption(f"{name!r} is given twice", asked=" ".join(texts), next=text)
        found[name] = argument(name, value)
    return found


def argument(name: str, text: str) -> Any:
    """Return the value of one argument: a literal, an array from a file, or text without quotes. Raises BadOption.

    >>> argument("mode", "mean")
    'mean'
    """
    if text.startswith("@"):
        return _from_file(name, text[1:])
    if text.strip().lower() in NUMBERS or not WORD.fullmatch(text) or text in CONSTANTS.values():
        return literal(name, text)
    if text.lower() in CONSTANTS:
        raise BadOption(
            f"{text!r} could be a text or {CONSTANTS[text.lower()]}",
            asked=f"{name}={text}",
            next=f"{name}={CONSTANTS[text.lower()]}, or {name}='\"{text}\"' for the text",
        )
    return text


def literal(name: str, text: str) -> Any:
    """Return the value of a Python literal, which may contain ``nan``, ``inf`` and ``randn(2, 3)``. Raises BadOption.

    A list of numbers becomes a NumPy array, which the backend converts to a tensor.

    >>> literal("x", "[1.0, 2]")
    array([1., 2.], dtype=float32)
    >>> literal("x", "ones(2, 3)").shape, literal("x", "-inf")
    ((2, 3), -inf)
    """
    try:
        return _value(name, ast.parse(text.strip(), mode="eval").body)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise BadOption(
            f"{text!r} is not a value that can be read",
            asked=f"{name}={text}",
            found=_found(error),
            next=f"{name}=3.0, {name}='[1.0, 2.0]' or {name}='randn(2, 3)' for a tensor, or {name}=@file.npy",
        ) from error


def floated(values: Iterable[Any]) -> list[Any]:
    """Convert integers to floating point if no value is floating point, so that something can be differentiated.

    >>> floated([3, 2]), floated([3.0, 2])
    ([3.0, 2.0], [3.0, 2])
    """
    values = list(values)
    return values if any(map(_is_floating, values)) else [_floating(value) for value in values]


def _value(name: str, node: ast.expr) -> Any:
    match node:
        case ast.Call(func=ast.Name(id=shaped), args=sizes, keywords=[]) if shaped in SHAPED:
            return _of_shape(name, shaped, [ast.literal_eval(size) for size in sizes])
        case ast.Tuple(elts=elements):
            return tuple(_value(name, element) for element in elements)
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return {ast.literal_eval(key): _value(name, value) for key, value in zip(keys, values, strict=True) if key}
    value = ast.literal_eval(_Numbers().visit(node))
    return _array(value) if isinstance(value, list) else value


class _Numbers(ast.NodeTransformer):
    # Replaces names such as ``nan`` by numbers, because Python has no literal for them.
    def visit_Name(self, node: ast.Name) -> ast.expr:
        number = NUMBERS.get(node.id.lower())
        return node if number is None else ast.copy_location(ast.Constant(number), node)


def _array(value: list[Any]) -> Any:
    import numpy

    array = numpy.array(value)
    if array.dtype.kind not in "biufc":
        return value
    return array.astype(SINGLE[array.dtype.kind]) if array.dtype.kind in SINGLE else array


def _of_shape(name: str, shaped: str, sizes: Sequence[Any]) -> Any:
    # Return an array of the given shape. Random numbers are seeded with the argument's name, so each run gets the same.
    import numpy

    shape = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], tuple | list) else tuple(sizes)
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"{shaped}() takes the sizes of a tensor, as in {shaped}(2, 3)")
    if shaped == "randn":
        drawn = numpy.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape, dtype=numpy.float32)
        return numpy.asarray(drawn)
    return (numpy.zeros if shaped == "zeros" else numpy.ones)(shape, dtype=numpy.float32)


def _from_file(name: str, path: str) -> Any:
    import numpy

    try:
        array = numpy.load(path, allow_pickle=False)
    except OSError as error:
        found = error.strerror or "not a file that NumPy saved"
    except (ValueError, EOFError):
        found = "not a file that numpy.save wrote, or one that holds Python objects"
    else:
        if isinstance(array, numpy.ndarray) and array.dtype.kind in "biufc":
            return array
        found = f"an array of {array.dtype}" if isinstance(array, numpy.ndarray) else "several arrays"
        if not isinstance(array, numpy.ndarray):
            array.close()
    raise BadOption(
        f"{name!r} cannot be read from {path!r}",
        asked=f"{name}=@{path}",
        found=found,
        next=f'{name}=@file.npy, a file of numbers made by numpy.save("file.npy", array)',
    )


def _is_floating(value: Any) -> bool:
    return isinstance(value, float | complex) or getattr(getattr(value, "dtype", None), "kind", "") in ("f", "c")


def _floating(value: Any) -> Any:
    if type(value) is int:
        return float(value)
    return value.astype("float32") if getattr(getattr(value, "dtype", None), "kind", "") in ("i", "u") else value


def _found(error: Exception) -> str:
    # Explain why a text is not a literal. Python's own message contains the address of a syntax tree node, and NumPy's
    # message is long.
    if isinstance(error, SyntaxError):
        return error.msg
    if isinstance(error, MemoryError):
        return str(error) or "nested too deeply"
    if "malformed node" in str(error):
        return f"a name or an expression; of functions {', '.join(SHAPED)} can be called, with sizes"
    return "nested lists of different lengths" if "inhomogeneous shape" in str(error) else str(error)
