"""The cells of a notebook that have run. All cells share the names of a single module."""

from __future__ import annotations

import ast
import linecache
import re
import sys
from typing import Any

from backprobe.source.scopes import SourceText

NUMBER = re.compile(r"In\[(\d+)\]")


def namespace() -> Any:
    """Return the namespace of the notebook that runs in this process; None if there is none."""
    shell = _shell()
    return None if shell is None else shell.user_global_ns


def cells() -> list[SourceText]:
    """Return the cells that have run, in order. The running cell is the last. Cells that are not Python are left out.

    IPython keeps each cell's text for tracebacks. If a cell ran twice, only its last run counts.
    """
    shell = _shell()
    numbered = []
    for file in list(linecache.cache):
        named = None if shell is None else shell.compile.format_code_name(file)
        number = None if named is None else NUMBER.fullmatch(named[1])
        if number is not None:
            numbered.append((int(number[1]), file))
    found = []
    for order, (_, file) in enumerate(sorted(numbered, key=lambda one: one[0])):
        lines = tuple(linecache.getlines(file))
        try:
            tree = ast.parse("".join(lines))
        except (SyntaxError, ValueError):
            continue
        found.append(SourceText(file, lines, tree, order))
    return found


def is_cell(file: str) -> bool:
    """Is this a file name that IPython gives to a cell?"""
    shell = _shell()
    return shell is not None and shell.compile.format_code_name(file) is not None


def _shell() -> Any:
    notebook = sys.modules.get("IPython")
    return None if notebook is None else notebook.get_ipython()
