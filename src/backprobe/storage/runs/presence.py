"""Looks whether the files of a run being written are still there: what goes to a deleted file goes with the process.

A folder may be renamed or moved meanwhile, so its files are looked for in the folder and not by their path. One that
was put in the place of another is not the one that is written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

ENDINGS = ("", "-wal")  # what SQLite commits to


class Deleted(OSError):
    """What was written is lost."""


class Presence:
    """The files that a writer has made in a folder, from its making to ``close``."""

    def __init__(self, path: Path) -> None:
        self.folder: int | None = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        names = [path.name + ending for ending in ENDINGS]
        self.known = {name: found for name in names if (found := self._of(name)) is not None}

    def check(self) -> None:
        """Raise ``Deleted`` where one of them is gone."""
        gone: Sequence[str] = [name for name, known in self.known.items() if self._of(name) != known]
        if gone:
            raise Deleted(f"{gone[0]} is no longer in it: it was deleted, moved or replaced")

    def _of(self, name: str) -> tuple[int, int] | None:
        # Which file of the system has this name; None if there is none.
        try:
            found = os.stat(name, dir_fd=self.folder)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def close(self) -> None:
        if self.folder is not None:
            os.close(self.folder)
            self.folder = None
