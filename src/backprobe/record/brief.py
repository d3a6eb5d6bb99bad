"""Short texts for values and places, for the one-line form of objects and for messages."""

from __future__ import annotations

import math
import os
import sys
from types import BuiltinFunctionType, FunctionType
from typing import Any

SMALL = 8  # a tensor with more elements is not shown in full
LONGEST = 60  # the most characters of a short text
UNLIKE = {"bytes": "bytes", "Variables": "a block"}
"""Descriptions, for messages, of types whose names do not describe them."""


def place(file: str, line: int) -> str:
    """A file's name and a line in it. A notebook cell is named by its number, as in the notebook's tracebacks."""
    return f"{_cell(file) or os.path.basename(file)}:{line}"


def path(file: str, line: int) -> str:
    """A file and a line in it. Files below the working directory get a relative path, because terminals and editors
    link such paths. A notebook cell is named by its number, and other files keep their path.
    """
    return f"{_cell(file) or _nearby(file)}:{line}"


def _cell(file: str) -> str:
    # IPython's name for the file of a cell, such as ``In[6]``; "" for other files.
    notebook = sys.modules.get("IPython")
    shell = notebook.get_ipython() if notebook is not None else None
    named = shell.compile.format_code_name(file) if shell is not None else None
    return str(named[1]) if named is not None else ""


def _nearby(file: str) -> str:
    try:
        here = os.path.join(os.getcwd(), "")
    except OSError:  # the working directory no longer exists
        return file
    return file.removeprefix(here)


def brief(value: Any) -> str:
    """A value as it prints itself, if it is small and this is one short line; otherwise a tensor's shape and dtype, or
    a value's type.

    >>> import torch
    >>> brief(torch.tensor(3.0)), brief(torch.zeros(100, 2))
    ('tensor(3.)', 'tensor of 100×2 float32')
    """
    shape = getattr(value, "shape", None)
    try:
        few = shape is None or math.prod(shape) <= SMALL
        shown = repr(value) if few else ""
    except (TypeError, ValueError, RuntimeError):  # the shape is unknown
        few, shown = False, ""
    if few and len(shown) <= LONGEST and "\n" not in shown:
        return shown
    if shape is None:
        return f"<{type(value).__name__}>"
    return f"tensor of {sizes(shape)} {str(getattr(value, 'dtype', '')).rpartition('.')[2]}".rstrip()


def kind(value: Any) -> str:
    """The kind of a value, in the words of messages.

    >>> kind(3), kind("u"), kind(None), kind(int)
    ('an int', 'a str', 'None', 'the class int')
    """
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, FunctionType | BuiltinFunctionType):
        return "a function"
    name = type(value).__name__
    if name in UNLIKE:
        return UNLIKE[name]
    is_vowel = name[:1] in "AEFHILMNORSX" if name[:2].isupper() else name[:1].lower() in "aeiou"
    return f"{'an' if is_vowel else 'a'} {name}"


def written(value: Any) -> str:
    """A value as code, in a few words: a function or class by its name, and others as ``brief`` describes them.

    >>> written(3.5), written(len), written(object())
    ('3.5', 'len', '<object>')
    """
    if callable(value) and isinstance(name := getattr(value, "__name__", None), str):
        return name
    shown = brief(value)
    return f"<{type(value).__name__}>" if " at 0x" in shown else shown


def cut(text: str, most: int = LONGEST) -> str:
    """A text; if it is long, with its middle left out.

    >>> cut("a" * 50 + "b" * 50, 9)
    'aaaa…bbbb'
    """
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}" if len(text) > most else text


def sizes(shape: Any) -> str:
    """The sizes of a shape, joined by ×; empty for a single number.

    >>> sizes((2, 16, 64))
    '2×16×64'
    """
    return "×".join(map(str, shape))
