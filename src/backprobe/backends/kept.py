"""Undo functions for what a run may change, and containers that get their former contents back."""

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
    """What will be put back after one run, the last change first."""

    def __init__(self, lasting: Mapping[int, Any] = MappingProxyType({})) -> None:
        self.before, self.lasting = lasting, dict[int, Any]()
        """Copies of large tensors from the run before, and from this one."""

        self.known: dict[tuple[int, str], Any] = {}
        self.copies: dict[int, Any] = {}
        """Replacements during the run, by the identity of the original: always the same copy."""

        self.undo: list[Callable[[], None]] = []
        """Each restores a fixed state, whatever the present one is, so it may be called twice."""

    def is_new(self, one: Any, part: str = "") -> bool:
        """Is it, or a part of it, kept for the first time in this run?"""
        if (id(one), part) in self.known:
            return False
        self.known[id(one), part] = one  # held, so that no other object gets its identity
        return True

    def keep(self, state: RandomState) -> None:
        """Keep a random state, or other state that is read and written as a whole."""
        read, write = state
        self.undo.append(partial(write, read()))

    def put_back(self) -> None:
        """Put back everything, even if interrupted; the interruption is raised at the end."""
        try:
            undo_all(self.undo)
        except BaseException:
            undo_all(self.undo)  # if the first call was interrupted before it began
            raise


def assign(own: dict[str, Any], before: Mapping[str, Any]) -> None:
    """Give an object the attributes that it had before."""
    for name in own.keys() - before.keys():
        del own[name]
    own.update(before)


def content_of(container: Any) -> Any:
    """The present contents of a list, dict, set or the like, in a plain container."""
    kind = _kind_of(container)
    items = kind.__iter__(container)
    return {key: kind.__getitem__(container, key) for key in items} if issubclass(kind, dict) else [*items]


def refill(container: Any, content: Any) -> None:
    """Give a list, dict, set or the like these contents again; it is written only if it has changed."""
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
    # The builtin class in its ancestry, whose methods run no code of the program.
    return next(one for one in type(container).__mro__ if one in FILLED)
