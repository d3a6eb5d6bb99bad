"""Edits of source text: replacements, and the patch that they make."""

from __future__ import annotations

import difflib
import os
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

Piece = tuple[int, int, str]
"""A change of a text: the index of the first replaced character, the index after the last one, and the new text."""


@dataclass(frozen=True)
class Edit:
    """A replacement of one expression in a file. The text around the expression stays the same.

    >>> edit = Edit("a.py", 1, "y = x.detach()  # cut", ((5, 14, ""),))
    >>> edit.after
    'y = x  # cut'
    """

    file: str
    line: int
    text: str
    """The whole text of the file before the edit."""

    pieces: tuple[Piece, ...]
    what: str = ""
    """The edited expression, as ``ast.unparse`` writes it; empty if the edit changes something else."""

    undecorated: str = ""
    """The qualified name of the function if the edit removes its only decorator; otherwise empty."""

    @property
    def after(self) -> str:
        """The edited line, without the spaces around it."""
        return edited(self.text, [self]).split("\n")[self.line - 1].strip()


def edited(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with these edits. If two edits contain the same change, it is made once."""
    for start, end, instead in sorted({piece for edit in edits for piece in edit.pieces}, reverse=True):
        text = text[:start] + instead + text[end:]
    return text


def patch(edits: Sequence[Edit], root: Path) -> bytes:
    """Return a unified diff of edits. File names are relative to a folder, in which ``git apply`` works."""
    return b"".join(_patch_of(file, edits, root) for file in dict.fromkeys(edit.file for edit in edits))


def _patch_of(file: str, edits: Sequence[Edit], root: Path) -> bytes:
    own = [edit for edit in edits if edit.file == file]
    with open(file, "rb") as opened:
        raw = opened.read()
        opened.seek(0)
        encoding, _ = tokenize.detect_encoding(opened.readline)
    before, after = (text.split("\n") for text in (own[0].text, edited(own[0].text, own)))
    if len(before) == len(after):  # a line that is empty after the edit is removed
        after = [now for was, now in zip(before, after, strict=True) if now.strip() or not was.strip()]
    name = Path(os.path.relpath(file, root)).as_posix()
    end = "\r\n" if b"\r\n" in raw else "\n"
    is_open = not raw.endswith(b"\n")  # was the last line end added by linecache?
    lines, others = (_ended(text, end, is_open) for text in (before, after))
    made = list(difflib.unified_diff(lines, others, f"a/{name}", f"b/{name}"))
    missing = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else line + missing for line in made).encode(encoding)


def _ended(lines: list[str], end: str, is_open: bool) -> list[str]:
    whole = lines[:-1] if not lines[-1] else lines
    return [line + end * (number < len(whole) or not is_open) for number, line in enumerate(whole, 1)]
