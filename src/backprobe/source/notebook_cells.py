"""The cells of a notebook that have run, whose names are those of one module."""

from __future__ import annotations

import ast
import linecache
import re
import sys
from typing import Any

from backprobe.source.scopes import SourceText

NUMBER = re.compile(r"In\[(\d+)\]")


def namespace() -> Any:
    """The names of the notebook that this process runs, if it does."""
    shell = _shell()
    return None if shell is None else shell.user_global_ns


def cells() -> list[SourceText]:
    """The cells that have run, in this order, the running one last. What is no Python is left out.

    IPython keeps the text of each for tracebacks. A cell that ran twice has the number of the later time.
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
    """Is it what IPython calls the file of a cell?"""
    shell = _shell()
    return shell is not None and shell.compile.format_code_name(file) is not None


def _shell() -> Any:
    notebook = sys.modules.get("IPython")
    return None if notebook is None else notebook.get_ipython()
