"""One writer for each file: a lock of the operating system, which ends with its process, however that ends."""

from __future__ import annotations

import os
from pathlib import Path

from backprobe.errors import BadRun, Unsupported

HELD: set[Path] = set()
"""The locks of this process: the system's lock is the process's, and would be given to it twice."""


class WriteLock:
    """The right to write a file, from ``take`` to ``release``."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.descriptor: int | None = None

    def take(self, asked: str) -> None:
        """Raises BadRun where somebody else has it."""
        try:
            import fcntl
        except ImportError as error:  # Windows
            raise Unsupported(
                "a run cannot be written on this system", asked=asked, found=str(error),
                why="one writer is kept by fcntl's locks", next="watch on Linux or macOS; reading works here",
            ) from error  # fmt: skip
        if self.path in HELD:
            raise self._taken(asked, "this process, in a watch that is still open")
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(descriptor, 64).decode(errors="replace").strip()
            os.close(descriptor)
            raise self._taken(asked, f"process {owner}" if owner else "another process") from error
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        self.descriptor = descriptor
        HELD.add(self.path)

    def _taken(self, asked: str, by: str) -> BadRun:
        return BadRun(
            f"{self.path.parent} is being written already", asked=asked, found=f"its lock is held by {by}",
            why="two trainings in one run would mix their steps", next="another folder, or end the other first",
        )  # fmt: skip

    def release(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
            HELD.discard(self.path)
