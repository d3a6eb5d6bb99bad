"""Names that a framework does not promise to keep: each is looked up once, when its backend is imported.

A release that has lost one switches off the capabilities that need it: these are refused with its name, in place of an
``AttributeError`` in a step of the program.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from backprobe.errors import Unsupported


class PrivateNames:
    """Those of one framework; ``known`` are the releases that have them.

    >>> names = PrivateNames("os", "the operating system", "os<2")
    >>> names.optional("os.no_such_name", "memory") is None, names.gone
    (True, {'memory': 'os.no_such_name'})
    """

    def __init__(self, framework: str, title: str, known: str) -> None:
        self.framework, self.title, self.known = framework, title, known
        self.gone: dict[str, str] = {}
        """The capabilities that are switched off, each with the name that is missing."""

    def optional(self, path: str, *capabilities: str, otherwise: Any = None) -> Any:
        """What has this name; without it, these capabilities are switched off."""
        value = lookup(path)
        if value is None:
            self.gone |= {one: path for one in capabilities if one not in self.gone}
            return otherwise
        return value

    def needed(self, path: str) -> Any:
        """What has this name. Raises Unsupported, since nothing works without it."""
        value = lookup(path)
        if value is None:
            self._refuse(path)
        return value

    def needed_of(self, owner: Any, path: str, *attributes: str) -> None:
        """Raises Unsupported where the objects of a framework have lost one of these attributes."""
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
    """What a dotted path leads to; None where a part of it is gone."""
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
    """Has this object the attribute that the path ends with?"""
    return hasattr(owner, path.rpartition(".")[2])
