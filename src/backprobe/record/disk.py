"""Writes files completely or not at all, and describes in words why writing to a disk failed."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from backprobe.errors import BadOption

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NUMBERED = re.compile(r"\(os error (\d+)\)")  # the form in which libraries written in Rust report system errors


def write_whole(path: Path, data: bytes) -> None:
    """Write a file completely or not at all: the data goes to a temporary file next to it, which is then renamed.

    Something other than a regular file, such as a pipe, is written to directly. Raises OSError.
    """
    with written_whole(path) as opened:
        opened.write(data)


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """A context manager that writes a file completely or not at all, and makes the folders above it. It gives an open
    file, for data written in parts. Something other than a regular file, such as a pipe, is written to directly.
    """
    target = Path(os.path.realpath(path))  # the target of a link, so that the link stays
    target.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(target) and not target.is_file():
        with target.open("wb") as opened:
            yield opened
        return
    mode = None
    if target.exists():
        target.open("ab").close()  # checks that it may be written to
        mode = target.stat().st_mode & 0o777
    beside = target.parent / f".backprobe-{secrets.token_hex(4)}"
    try:
        with beside.open("xb") as opened:
            yield opened
        if mode is not None:
            beside.chmod(mode)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def unwritable(what: str, target: Path, error: Exception, *, asked: str, call: str, smaller: str) -> BadOption:
    """The error that ``what`` cannot be written. ``call`` is the call of the verb that takes the path, and ``smaller``
    is advice on writing less.

    >>> error = OSError(errno.EACCES, "Permission denied")
    >>> unwritable("the drawing", Path("/a.svg"), error, asked="path='/a.svg'", call="path={!r}", smaller="").found
    'Permission denied'
    """
    number = _number(error)
    nearest = reached(target)
    found = os.strerror(number) if number is not None else str(error)
    return BadOption(
        f"{what} cannot be written to {target}",
        asked=asked,
        found=found if nearest.is_dir() else f"{nearest} is a file",
        next=_next(number, target, call, smaller),
    )


def check_folders(what: str, target: Path, asked: str, next: str) -> None:
    """Raise BadOption if the folders above a file cannot be made, because one of them is a file."""
    if not (nearest := reached(target)).is_dir():
        raise BadOption(f"{what} cannot be written to {target}", asked=asked, found=f"{nearest} is a file", next=next)


def reached(target: Path) -> Path:
    """The nearest existing folder above a path."""
    return next(folder for folder in target.absolute().parents if folder.exists())


def is_full(error: Exception) -> bool:
    """Does the error say that the disk is full, or that a quota or the limit of a file's size is reached?"""
    return _number(error) in FULL


def _next(number: int | None, target: Path, call: str, smaller: str) -> str:
    if number in FULL:
        return f"make room on the disk, or {smaller}"
    if number == errno.ENAMETOOLONG:
        return "a shorter name"
    return f"a folder that you may write to, such as your own: {call.format(str(Path.home() / target.name))}"


def _number(error: Exception) -> int | None:
    # The system's error number, taken from the text of a library's error if necessary.
    if isinstance(error, OSError):
        return error.errno
    found = NUMBERED.search(str(error))
    return int(found[1]) if found else None
