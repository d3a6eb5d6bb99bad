"""One writer for each file, by a lock of the operating system, which is released whenever the process ends."""

from __future__ import annotations

import os
from pathlib import Path

from backprobe.errors import BadRun, Unsupported

HELD: dict[Path, int] = {}
"""The locks that this process holds, by path. The system locks per process, so it would grant a second lock to the same
process. The value is the process's number: a forked child inherits this dict and sees that the locks are not its own.
"""


class WriteLock:
    """The right to write a file, from ``take`` to ``release``."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.descriptor: int | None = None

    def take(self, asked: str) -> None:
        """Take the lock. Raises BadRun if it is taken already, and Unsupported where the system has no such locks."""
        try:
            import fcntl
        except ImportError as error:  # Windows has no module ``fcntl``
            raise Unsupported(
                "a run cannot be written on this system",
                asked=asked,
                found=str(error),
                why="one writer is kept by fcntl's locks",
                next="watch on Linux or macOS; reading works here",
            ) from error
        if HELD.get(self.path) == os.getpid():
            raise self._taken(asked, "this process, in a watch that is still open")
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(descriptor, 64).decode(errors="replace").strip()
            os.close(descriptor)
            raise self._taken(asked, f"process {owner}" if owner else "another process") from error
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        except OSError:  # for example because the disk is full
            os.close(descriptor)
            raise
        self.descriptor = descriptor
        HELD[self.path] = os.getpid()

    def _taken(self, asked: str, by: str) -> BadRun:
        return BadRun(
            f"{self.path.parent} is being written already",
            asked=asked,
            found=f"its lock is held by {by}",
            why="two trainings in one run would mix their steps",
            next="another folder, or end the other first",
        )

    def release(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
            HELD.pop(self.path, None)


def is_written(path: Path) -> bool:
    """Does a process hold the lock on this path?

    If this process holds it, the file is not opened: closing it would release the lock.
    """
    path = path.resolve()
    if HELD.get(path) == os.getpid():
        return True
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.lockf(descriptor, os.F_TEST, 0)
    except OSError:
        return True
    except AttributeError:  # Windows, where runs cannot be written
        return False
    finally:
        os.close(descriptor)
    return False
