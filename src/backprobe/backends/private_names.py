"""Looks up names that a framework does not promise to keep. Each is looked up once, when its backend is imported.

If a release of the framework lacks a name, the capabilities that need it are switched off. Their use raises an error
that contains the name, instead of an ``AttributeError`` in the middle of the program.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from backprobe.errors import Unsupported


class PrivateNames:
    """The private names of one framework. ``known`` are the releases that have all of them.

    >>> names = PrivateNames("os", "the operating system", "os<2")
    >>> names.optional("os.no_such_name", "memory") is None, names.gone
    (True, {'memory': 'os.no_such_name'})
    """

    def __init__(self, framework: str, title: str, known: str) -> None:
        self.framework, self.title, self.known = framework, title, known
        self.gone: dict[str, str] = {}
        """The capabilities that are switched off, each with the missing name."""

    def optional(self, path: str, *capabilities: str, otherwise: Any = None) -> Any:
        """Return the object with this name. If it is missing, switch these capabilities off and return
        ``otherwise``.
        """
        value = lookup(path)
        if value is None:
            self.gone |= {one: path for one in capabilities if one not in self.gone}
            return otherwise
        return value

    def needed(self, path: str) -> Any:
        """Return the object with this name. Raises Unsupported if it is missing, because nothing works without it."""
        value = lookup(path)
        if value is None:
            self._refuse(path)
        return value

    def needed_of(self, owner: Any, path: str, *attributes: str) -> None:
        """Raise Unsupported if an object of a framework lacks one of these attributes."""
        for name in attributes:
            if not has(owner, f"{path}.{name}"):
                self._refuse(f"{path}.{name}")

    def _refuse(self, path: str) -> None:
        version = getattr(import_module(self.framework), "__version__", "of unknown version")
        raise Unsupported(
            f"backprobe does not know this release of {self.title}",
            asked=f"gradients of values of {self.title}",
            found=f"{self.framework} {version} has no {path}",
            why="backprobe needs this name, which the framework does not promise to keep",
            next=f"pip install '{self.known}'",
        )


def lookup(path: str) -> Any:
    """Return the object at the end of a dotted path; None if any part after the first, a package, is missing."""
    first, *names = path.split(".")
    at, value = first, import_module(first)
    for name in names:
        at = f"{at}.{name}"
        if hasattr(value, name):
            value = getattr(value, name)
            continue
        try:
            value = import_module(at)
        except ImportError:
            return None
    return value


def has(owner: Any, path: str) -> bool:
    """Does this object have the attribute with which the path ends?"""
    return hasattr(owner, path.rpartition(".")[2])
