"""Iterators, queues and files that a program holds: if a run takes from them, another would be given what comes next.

That something was taken is seen by a fact. An iterator made by C shows where it is by what it holds, by how much is
left or by how it would be pickled, a generator by its frame, a file by its position; a library's own iterator is heard
when it is asked for the next item. Iterators of the program's own classes are put back, as other objects are.
"""

from __future__ import annotations

import gc
import io
import queue
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import GeneratorType, MemberDescriptorType, WrapperDescriptorType
from typing import Any

from backprobe.backends.held_values import is_of_program
from backprobe.backends.patching import listening
from backprobe.record.containers import SIMPLE, TEXTS

QUEUES = (queue.Queue, queue.SimpleQueue)


class UsedUp(Exception):
    """A run would begin with something from which an earlier one has taken."""

    def __init__(self, one: Any) -> None:
        super().__init__(type(one).__name__)
        self.one = one


def sources(reached: Iterable[Any]) -> list[Any]:
    """What of this gives other items each time it is asked, and is not put back.

    >>> sources([[1], iter([1]), (one for one in [1])])
    [<list_iterator object at 0x...>, <generator object <genexpr> at 0x...>]
    """
    return [one for one in reached if _is_source(type(one)) and not _is_written(one)]


def _is_source(kind: type) -> bool:
    if issubclass(kind, QUEUES):
        return True
    return issubclass(kind, (Iterator, io.IOBase)) and not is_of_program(kind)


def _is_written(one: Any) -> bool:
    # Is it a file that nothing can be taken from?
    try:
        return isinstance(one, io.IOBase) and not one.readable()
    except ValueError:  # it is closed
        return True


@contextmanager
def hearing_takes(held: Sequence[Any], taken: Callable[[Any], None]) -> Iterator[None]:
    """After this context ``taken`` has been given each of the sources ``held`` from which something was taken in it.

    >>> items, found = iter([1, 2]), []
    >>> with hearing_takes([items], found.append):
    ...     item = next(items)
    >>> found == [items]
    True
    """
    alive: list[Any] = []  # no other object may get the identity of what a source held
    heard = {id(one): one for one in held if _asked_by(one) is not None}
    before = [(one, _position(one, alive)) for one in held if id(one) not in heard]

    def asked(following: Callable[..., Any], iterator: Any, /) -> Any:
        if id(iterator) in heard:
            taken(heard.pop(id(iterator)))
        return following(iterator)

    try:
        with ExitStack() as entered:
            for kind in dict.fromkeys(map(_asked_by, heard.values())):
                entered.enter_context(listening(kind, "__next__", asked))
            yield
    finally:
        for one, position in before:
            if _has_given(position, _position(one, alive)):
                taken(one)


def _asked_by(one: Any) -> type | None:
    # The class whose ``__next__``, in Python, gives the items of an iterator; None where that is in C.
    kind = next((each for each in type(one).__mro__ if "__next__" in vars(each)), None)
    return None if kind is None or isinstance(vars(kind)["__next__"], WrapperDescriptorType) else kind


def _has_given(before: Any, now: Any) -> bool:
    # An item that was put into a queue has not been taken from it.
    if isinstance(before, frozenset):
        return not before <= now
    return bool(before != now)


def _position(one: Any, alive: list[Any]) -> Any:
    # Where a source is: equal to what it was before if nothing was taken from it, as far as that can be seen.
    if isinstance(one, QUEUES):
        return frozenset(_place(item, alive) for item in _items(one))
    if isinstance(one, io.IOBase):
        with suppress(OSError, ValueError):  # it has no position, is closed, or is read by an iterator
            return one.tell()
        return None
    kind: Any = type(one)
    frame = one.gi_frame if kind is GeneratorType else None  # which is among what it holds, once it was asked for
    place = None if frame is None else frame.f_lasti
    counts = [_place(each, alive) for each in _counts(one)]
    return place, counts, [_place(each, alive) for each in gc.get_referents(one)], _left(one, alive)


def _counts(one: Any) -> Iterator[Any]:
    # What a class in C shows of an object as plain attributes, as the number of the line that a reader has come to.
    for member in [each for each in vars(type(one)).values() if isinstance(each, MemberDescriptorType)]:
        with suppress(AttributeError):
            yield member.__get__(one)


def _items(one: Any) -> list[Any]:
    own = getattr(one, "queue", None)  # one of Python's; what C holds is asked of the collector of garbage
    held = [own] if own is not None else gc.get_referents(one)
    return [item for each in held for item in (each if hasattr(each, "__iter__") else [each])]


def _left(one: Any, alive: list[Any]) -> Any:
    # How many items are left, or else how an iterator of ``itertools`` would be pickled: that shows where it is.
    kind: Any = type(one)
    if hasattr(kind, "__length_hint__"):
        with suppress(TypeError):  # it never ends
            return kind.__length_hint__(one)
    if kind.__module__ != "itertools" or kind.__reduce__ is object.__reduce__:
        return None
    with warnings.catch_warnings():  # Python 3.14 will not have it
        warnings.simplefilter("ignore")
        return _place(kind.__reduce__(one), alive)


def _place(one: Any, alive: list[Any]) -> Any:
    # What tells one object from another, as long as both live. Numbers are made anew each time that they are asked for.
    if type(one) is tuple:
        return tuple(_place(each, alive) for each in one)
    if type(one) in SIMPLE and type(one) not in TEXTS:
        return repr(one)
    if hasattr(type(one), "__length_hint__"):
        return type(one).__length_hint__(one)
    alive.append(one)
    return id(one)
