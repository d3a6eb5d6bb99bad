"""Phrases that messages share: lists cut short, counts, places in files, and long texts shortened."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from backprobe.record.entries import Entry
from backprobe.record.source import Source

MOST = 8
"""Names that a list shows before it counts the rest."""


def listed(names: Sequence[object], most: int = MOST) -> str:
    """Names as text; of many the first, and how many more there are.

    >>> listed(["a", "b"]), listed(["a", "b", "c"], most=2)
    ('a, b', 'a, b and 1 more')
    """
    return ", ".join(map(str, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")


def quoted(names: Sequence[str], most: int = MOST) -> str:
    """The same with each name in quotes.

    >>> quoted(["u", "v"])
    "'u', 'v'"
    """
    return listed([repr(name) for name in names], most)


def plural(count: int, what: str) -> str:
    """A number and what it counts.

    >>> plural(1, "value"), plural(1200, "value")
    ('1 value', '1,200 values')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def shorten(text: str, most: int = 60) -> str:
    """A text on one line, cut where it is longer than that.

    >>> shorten("torch.relu(x)", 10)
    'torch.rel…'
    """
    text = " ".join(text.split())
    return text[: most - 1] + "…" if len(text) > most else text


def place(file: str, line: int) -> str:
    """The name of a file and a line in it; of a notebook's cell its number, as in the notebook's own tracebacks."""
    notebook = sys.modules.get("IPython")
    shell = notebook.get_ipython() if notebook is not None else None
    named = shell.compile.format_code_name(file) if shell is not None else None
    return f"{named[1] if named is not None else os.path.basename(file)}:{line}"


def location(source: Source) -> str:
    """A line of code with its whole path, as editors and terminals link it."""
    return f"{source.file}:{source.line}: {source.text.strip()}"


def named(entry: Entry) -> str:
    """The name of an entry, and the line that computes it."""
    return repr(entry.name) + (f" ({location(entry.source)})" if entry.source is not None else "")
