"""Saves the state that a run may change, and functions that restore it."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from functools import partial
from operator import is_not
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from backprobe.backends.undoing import undo_all

if TYPE_CHECKING:
    from backprobe.backends.random_states import RandomState

FILLED = (OrderedDict, dict, list, set, deque, bytearray)


class Kept:
    """The saved state of one run. It is restored in reverse order."""

    def __init__(self, lasting: Mapping[int, Any] = MappingProxyType({})) -> None:
        self.before, self.lasting = lasting, dict[int, Any]()
        """By identity: the saved numbers of tensors, from the previous run and from this run."""

        self.known: dict[tuple[int, str], Any] = {}
        self.copies: dict[int, Any] = {}
        """By the identity of an original: its replacement during the run, always the same copy."""

        self.undo: list[Callable[[], None]] = []
        """Functions that restore the saved state. Each of them may be called twice, because it does not depend on the
        present state.
        """

    def is_new(self, one: Any, part: str = "") -> bool:
        """Is this object, or this part of it, saved for the first time in this run?"""
        if (id(one), part) in self.known:
            return False
        self.known[id(one), part] = one  # keeps the object alive, so that no other object gets its ``id``
        return True

    def keep(self, state: RandomState) -> None:
        """Save a random state, or another state that is read and written as a whole."""
        read, write = state
        self.undo.append(partial(write, read()))

    def put_back(self) -> None:
        """Restore everything, also if an interrupt arrives meanwhile. The interrupt is raised at the end."""
        try:
            undo_all(self.undo)
        except BaseException:
            undo_all(self.undo)  # again, because an interrupt may have stopped the first call before it began
            raise


def assign(own: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Restore the attributes that an object had before."""
    for name in own.keys() - before.keys():
        del own[name]
    own.update(before)


def content_of(container: Any) -> Any:
    """Return the present contents of a list, dict, set or similar container as a plain list or dict."""
    kind = _kind_of(container)
    items = kind.__iter__(container)
    return {key: kind.__getitem__(container, key) for key in items} if issubclass(kind, dict) else [*items]


def refill(container: Any, content: Any) -> None:
    """Restore the contents of a list, dict, set or similar container. An unchanged container is not written."""
    now = content_of(container)
    is_same = len(now) == len(content) and not any(map(is_not, now, content))
    if is_same and (not isinstance(now, dict) or not any(map(is_not, now.values(), content.values()))):
        return
    kind = _kind_of(container)
    kind.clear(container)
    if isinstance(now, dict):
        for key, value in content.items():
            kind.__setitem__(container, key, value)
    else:
        (kind.update if kind is set else kind.extend)(container, content)


def _kind_of(container: Any) -> Any:
    # Return Python's own class among the bases of a container. Its methods run no code of the program's class.
    return next(one for one in type(container).__mro__ if one in FILLED)
