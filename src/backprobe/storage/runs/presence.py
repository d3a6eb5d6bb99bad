"""Checks that the files of a run that is being written still exist, because data written to a deleted file is lost.

The folder may be renamed or moved meanwhile, so the files are looked up in the open folder and not by path. A file that
replaced the original does not count.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

ENDINGS = ("", "-wal")  # the files to which SQLite commits


class Deleted(OSError):
    """The files of the run no longer exist, so written data is lost."""


class Presence:
    """The files that a writer has created in a folder, from its creation to ``close``."""

    def __init__(self, path: Path) -> None:
        self.folder: int | None = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        names = [path.name + ending for ending in ENDINGS]
        self.known = {name: found for name in names if (found := self._of(name)) is not None}

    def check(self) -> None:
        """Raise ``Deleted`` if one of the files is gone."""
        gone: Sequence[str] = [name for name, known in self.known.items() if self._of(name) != known]
        if gone:
            raise Deleted(f"{gone[0]} is no longer in it: it was deleted, moved or replaced")

    def _of(self, name: str) -> tuple[int, int] | None:
        # The device and inode of the file with this name; None if there is none.
        try:
            found = os.stat(name, dir_fd=self.folder)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def close(self) -> None:
        if self.folder is not None:
            os.close(self.folder)
            self.folder = None
