"""The stamp on every recording: versions, time and author."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from backprobe.record.options import Option

PACKAGES = ("backprobe", "torch", "tensorflow", "keras", "jax", "jaxlib", "flax", "equinox", "transformers", "numpy")


@dataclass(frozen=True)
class Stamp:
    """The origin of a recording: author (None unless set), UTC time (ISO 8601), Python, system, versions."""

    author: str | None = None
    time: str = ""
    python: str = ""
    system: str = ""
    packages: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        who = f"{self.author}, " if self.author else ""
        versions = ", ".join(f"{name} {version}" for name, version in self.packages.items())
        return f"{who}{self.time}, Python {self.python}, {versions}, {self.system}"


class _Author:
    name: str | None = None


def stamp(author: str | None = None) -> Stamp:
    """The stamp of this process. With ``author`` given, every later recording carries that author, until ``author=""``
    removes it.

    >>> import backprobe as bp
    >>> bp.stamp(author="Ada").author
    'Ada'
    """
    if author is not None:
        Option("author", str, None, "'Ada'", says="a text").check(author)
        _Author.name = author or None
    known = _known()
    time = datetime.now(UTC).isoformat(timespec="seconds")
    return Stamp(_Author.name, time, known.python, known.system, dict(known.packages))


def environment() -> dict[str, Any]:
    """Python, the system, and the versions of imported packages, for ``json.dumps``. Contains no personal data."""
    known = _known()
    return {"python": known.python, "system": known.system, "packages": dict(known.packages)}


def _known() -> Stamp:
    return _environment(tuple(filter(sys.modules.__contains__, PACKAGES)))


@lru_cache(8)
def _environment(imported: tuple[str, ...]) -> Stamp:
    # Return the parts of a stamp that do not change while a process runs. Reading versions from disk each time would
    # cost a millisecond.
    from importlib import metadata  # imported here, because importing it takes as long as the rest of backprobe

    packages = {}
    for name in imported:
        version = getattr(sys.modules.get(name), "__version__", None)
        try:
            packages[name] = str(version or metadata.version(name))
        except metadata.PackageNotFoundError:
            packages[name] = "not installed"
    system = f"{platform.system()} {platform.machine()}"
    return Stamp(python=platform.python_version(), system=system, packages=packages)
