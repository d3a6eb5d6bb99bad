"""Replaces iterators by copies while a program runs, so that the original iterators do not advance.

An iterator is copyable if its class is written in C and can describe how to recreate an iterator at the same position.
``itertools.count`` is copyable; a generator is not.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import MethodDescriptorType, MethodWrapperType, WrapperDescriptorType
from typing import Any

Place = tuple[Any, Callable[[Any], None]]
"""The contents of an object as a plain list or dict, and a function that writes these contents back."""


def is_copyable(one: Any) -> bool:
    """Is the object an iterator that can be recreated at the same position, or the ``__next__`` of such an iterator?

    >>> import itertools
    >>> is_copyable(itertools.count()), is_copyable(itertools.count().__next__), is_copyable(one for one in [1])
    (True, True, False)
    """
    kind: Any = type(one)
    if kind is MethodWrapperType:
        return is_copyable(one.__self__)
    is_of_c = isinstance(getattr(kind, "__next__", None), WrapperDescriptorType)
    own = kind.__reduce__
    is_said = own is not object.__reduce__ and isinstance(own, MethodDescriptorType)
    # files are not copyable: from Python 3.12 on, their ``__reduce__`` raises an error
    return is_of_c and is_said and not hasattr(kind, "fileno")


def made_again(one: Any) -> tuple[Any, ...]:
    """Return the parts from which pickle would recreate a copyable iterator: a function, its arguments, and the state
    to set.
    """
    kind: Any = type(one)
    with _unwarned():
        return tuple(kind.__reduce__(one))


@contextmanager
def _unwarned() -> Iterator[None]:
    # Python 3.12 and later warn about pickling ``itertools`` objects, and Python 3.14 no longer supports it.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def copies_of(found: Sequence[Any], places: Callable[[Any], Iterable[Place]]) -> dict[int, Any]:
    """Return copies of the iterators among the objects ``found``, by identity of the original.

    An iterator is not copied if it is also held in a place that cannot be written, such as a tuple. Otherwise the
    program would use both the iterator and its copy.
    """
    holders = [one for one in found if not is_copyable(one)]
    fixed = {id(inside) for one in holders for inside in _held_elsewhere(one, places(one))}
    copies: dict[int, Any] = {}
    for one in found:
        _copy(one, fixed, copies)
    return copies


def exchange(found: Sequence[Any], places: Callable[[Any], Iterable[Place]], undo: list[Callable[[], None]]) -> None:
    """Replace the iterators that the objects ``found`` hold by copies, where they can be copied, until the functions in
    ``undo`` run.

    >>> import itertools
    >>> count = itertools.count()
    >>> held, undo = [count], []
    >>> exchange([held, count], lambda one: [([*one], held.__init__)] if one is held else [], undo)
    >>> next(held[0]), next(held[0]), count
    (0, 1, count(0))
    >>> undo[0]()
    >>> held
    [count(0)]
    """
    copies = copies_of(found, places)
    for one in found if copies else ():
        for content, write in () if is_copyable(one) else places(one):
            if any(id(each) in copies for each in _items(content)):
                undo.append(partial(write, content))
                write(_with_copies(content, copies))


def _held_elsewhere(one: Any, places: Iterable[Place]) -> Iterator[Any]:
    # Return the copyable iterators that an object holds outside of its writable places.
    written = {id(each) for content, _ in places for each in _items(content)}
    return (each for each in gc.get_referents(one) if is_copyable(each) and id(each) not in written)


def _copy(one: Any, fixed: set[int], copies: dict[int, Any]) -> Any:
    # Return a copy of an iterator, including copies of the iterators from which it reads. Return None if one of them
    # cannot be copied.
    if id(one) in copies:
        return copies[id(one)]
    copy = None if id(one) in fixed or not is_copyable(one) else _anew(one, fixed, copies)
    if copy is not None:
        copies[id(one)] = copy
    return copy


def _anew(one: Any, fixed: set[int], copies: dict[int, Any]) -> Any:
    if type(one) is MethodWrapperType:
        owner = _copy(one.__self__, fixed, copies)
        return None if owner is None else getattr(owner, one.__name__)
    make, args, *rest = made_again(one)
    state = [each for each in rest if each is not None]  # pickle treats None here as a missing item
    inner = [each for each in [*args, *_parts(state)] if isinstance(each, Iterator)]
    if any(_copy(each, fixed, copies) is None for each in inner):
        return None
    copy = make(*[copies.get(id(each), each) for each in args])
    with _unwarned():
        for each in state:
            copy.__setstate__(_gathered(each, copies))
    return copy


def _parts(state: Any) -> list[Any]:
    return [part for each in state for part in (each if type(each) is tuple else [each])]


def _gathered(state: Any, copies: dict[int, Any]) -> Any:
    # Return an iterator's state for its copy. A list in the state is copied, because the iterator appends to it;
    # ``cycle``, for example, stores the items that it has returned. Other objects are shared, except for iterators,
    # which are replaced by their copies.
    if type(state) is tuple:
        return tuple(_gathered(each, copies) for each in state)
    return [*state] if type(state) is list else copies.get(id(state), state)


def _items(content: Any) -> Iterable[Any]:
    return content.values() if isinstance(content, dict) else content


def _with_copies(content: Any, copies: dict[int, Any]) -> Any:
    if isinstance(content, dict):
        return {name: copies.get(id(one), one) for name, one in content.items()}
    return [copies.get(id(one), one) for one in content]
