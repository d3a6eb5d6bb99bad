"""Wraps the lines of a report at the width of a terminal, with continuation lines aligned below their text."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from typing import Any

LABEL = re.compile(r"\s*(?:\d+\. |- )?(?:note: |\w+: +)?")


def wrapped(words: str, width: int) -> str:
    """Wrap a text at this width, at spaces only.

    >>> print(wrapped("  next:  a remedy of many words", 24))
      next:  a remedy of
             many words
    """
    lines = []
    for line in words.split("\n"):
        label = LABEL.match(line)
        indent = " " * len(label[0]) if label is not None else ""
        lines += textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return "\n".join(lines)


def fitted(words: str, stream: Any = None) -> str:
    """Wrap a text if the stream is a terminal, by default standard output; return it unchanged otherwise."""
    stream = stream if stream is not None else sys.stdout
    return wrapped(words, shutil.get_terminal_size().columns) if stream is not None and stream.isatty() else words
