"""Phrases that messages share: lists cut short, counts, places in files, and long texts shortened."""

from __future__ import annotations

import contextlib
import io
import tokenize
from collections.abc import Sequence

from backprobe.record.brief import path
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


def location(source: Source) -> str:
    """A line of code with its path, as editors and terminals link it."""
    return f"{path(source.file, source.line)}: {source.text.strip()}"


def uncommented(source: Source) -> str:
    """A line of code without a comment at its end.

    >>> uncommented(Source("train.py", 1, "u = f('#')  # as in the paper"))
    "u = f('#')"
    """
    text = source.text.strip()
    with contextlib.suppress(tokenize.TokenError, SyntaxError):  # of a statement over several lines the first
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                text = text[: token.start[1]].rstrip()
    return text


def named(entry: Entry) -> str:
    """The name of an entry, and the line that computes it."""
    return repr(entry.name) + (f" ({location(entry.source)})" if entry.source is not None else "")
