"""Detects whether a run has taken items from iterators, queues and streams, because the next run would get other items.

An iterator written in C shows its position by its contents, its remaining length, or its pickled form. A generator
shows it by its frame. A file shows its position directly, and is set back to it. For iterators of libraries, queues of
other processes, sockets and pipes, the calls of the methods that return items are observed. Iterators of the program's
own classes are restored like other objects.
"""

from __future__ import annotations

import gc
import io
import queue
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType, GeneratorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

from backprobe.backends.held_values import is_of_program
from backprobe.backends.iterator_copies import is_copyable, made_again
from backprobe.backends.patching import definer_of, listening
from backprobe.record.containers import SIMPLE, TEXTS

COUNTED = (queue.Queue, queue.SimpleQueue)
"""The queues whose items can be inspected."""

IMMUTABLE = 1 << 8  # the flag of a class whose attributes cannot be set, such as a class in C


class UsedUp(Exception):
    """Raised if a run would use an object from which an earlier run has taken items."""

    def __init__(self, one: Any) -> None:
        super().__init__(type(one).__name__)
        self.one = one


def sources(reached: Iterable[Any]) -> list[Any]:
    """Return the objects from which a run may take items, such as iterators, queues, and files that can be read.

    >>> sources([[1], iter([1]), (one for one in [1])])
    [<list_iterator object at 0x...>, <generator object <genexpr> at 0x...>]
    """
    return [one for one in reached if _is_source(type(one)) and not _is_written(one)]


def is_stream(kind: type) -> bool:
    """Is this a class of streams or queues? The position of such an object is outside of Python and cannot be restored.

    >>> import multiprocessing.queues, socket
    >>> [is_stream(kind) for kind in (socket.socket, multiprocessing.queues.Queue, io.StringIO, dict)]
    [True, True, True, False]
    """
    if not _is_like_a_stream(kind):  # then its base classes are no streams either
        return False
    return any(_is_like_a_stream(base) for base in kind.__mro__ if not is_of_program(base))


def _is_like_a_stream(kind: type) -> bool:
    return hasattr(kind, "fileno") or _is_queue(kind)


def is_lost(one: Any) -> bool:
    """Would an item that a run takes from this object, or puts into it, be lost? False for objects of other kinds, for
    a closed file, and for a file that is only read and can be set back.

    >>> is_lost(io.StringIO()), is_lost(one for one in [1]), is_lost([1])
    (True, True, False)
    """
    if not isinstance(one, io.IOBase) or is_of_program(type(one)):
        return is_stream(type(one)) or _is_source(type(one))
    return not one.closed and not (one.readable() and one.seekable() and not one.writable())


def _is_queue(kind: type) -> bool:
    return hasattr(kind, "put") and hasattr(kind, "get") and hasattr(kind, "empty")


def _is_source(kind: type) -> bool:
    return (issubclass(kind, (Iterator, io.IOBase)) and not is_of_program(kind)) or (
        is_stream(kind) and not issubclass(kind, io.IOBase)
    )


def _is_written(one: Any) -> bool:
    # Is the object a file from which nothing can be read?
    try:
        return isinstance(one, io.IOBase) and not one.readable()
    except ValueError:  # the file is closed
        return True


@contextmanager
def hearing_takes(held: Sequence[Any], taken: Callable[[Any], None]) -> Iterator[None]:
    """Within this context, observe the sources ``held``, and call ``taken`` with each one from which an item was taken.

    At the end of the context, files that were only read are set back to their former positions.

    >>> items, found = iter([1, 2]), []
    >>> with hearing_takes([items], found.append):
    ...     item = next(items)
    >>> found == [items]
    True
    """
    alive: list[Any] = []  # keeps the contents of sources alive, so that no other object gets the same ``id``
    methods = {id(one): [*_asked_by(one)] for one in held}
    heard = {id(one): one for one in held if methods[id(one)]}
    pipes = {id(one): one for one in held if isinstance(one, io.IOBase) and not one.seekable()}
    before = [(one, _position(one, alive)) for one in held if id(one) not in heard | pipes]

    def asked(following: Callable[..., Any], one: Any, /, *args: Any, **kwargs: Any) -> Any:
        given = following(one, *args, **kwargs)
        if id(one) in heard:
            taken(heard.pop(id(one)))
        return given

    try:
        with ExitStack() as entered:
            for owner, name in dict.fromkeys(method for each in methods.values() for method in each):
                entered.enter_context(listening(owner, name, asked))
            if pipes:
                entered.enter_context(_hearing_reads(pipes, taken))
            yield
    finally:
        for one, position in before:
            if _has_given(position, _position(one, alive)) and not _is_set_back(one, position, alive):
                taken(one)


@contextmanager
def _hearing_reads(pipes: dict[int, Any], taken: Callable[[Any], None]) -> Iterator[None]:
    # Reads from pipes change no position and call no Python method, so only a profiler can observe them. Python has
    # only one profiler at a time.
    def returned(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_return" and function.__name__.startswith("read") and function.__name__ != "readable":
            one = pipes.pop(id(function.__self__), None)
            if one is not None:
                taken(one)

    if sys.getprofile() is not None:
        yield
        return
    sys.setprofile(returned)
    try:
        yield
    finally:
        if sys.getprofile() is returned:  # otherwise the program has set a profiler of its own
            sys.setprofile(None)


def _asked_by(one: Any) -> Iterator[tuple[type, str]]:
    # Yield the methods that return items, with the classes on which to observe them. Only methods written in Python, or
    # inherited by a Python class, can be observed; of ``__next__`` only one written in Python.
    kind = type(one)
    names = ["__next__"] if issubclass(kind, Iterator) and not isinstance(one, io.IOBase) else []
    if is_stream(kind) and not isinstance(one, (io.IOBase, *COUNTED)):
        # a connection of ``multiprocessing`` is read by its own methods, which a queue has stored
        names = ["get"] if _is_queue(kind) else [name for name in dir(kind) if name.lstrip("_").startswith("recv")]
    for name in names:
        owner = definer_of(kind, name)
        if not isinstance(vars(owner)[name], MethodDescriptorType | WrapperDescriptorType):
            yield owner, name
        elif name != "__next__" and not kind.__flags__ & IMMUTABLE:
            yield kind, name


def _has_given(before: Any, now: Any) -> bool:
    # Was an item taken? Queues are compared as sets, because an item that was added is not an item that was taken.
    if isinstance(before, frozenset):
        return not before <= now
    return bool(before != now)


def _is_set_back(one: Any, position: Any, alive: list[Any]) -> bool:
    # Is the object a file that was only read, and that could be set back?
    if not isinstance(one, io.IOBase) or position is None:
        return False
    with suppress(OSError, ValueError):  # raised if the file is closed
        if not one.writable():
            one.seek(position)
        return not _has_given(position, _position(one, alive))
    return False


def _position(one: Any, alive: list[Any]) -> Any:
    # Return the position of a source. As far as can be observed, it equals an earlier position if no item was taken.
    if isinstance(one, COUNTED):
        return frozenset(_place(item, alive) for item in _items(one))
    if isinstance(one, io.IOBase):
        with suppress(OSError, ValueError):  # raised if the file has no position, is closed, or is read by an iterator
            return one.tell()
        return None
    kind: Any = type(one)
    # read first, because reading the frame changes ``get_referents``
    frame = one.gi_frame if kind is GeneratorType else None
    place = None if frame is None else frame.f_lasti
    counts = [_place(each, alive) for each in _counts(one)]
    return place, counts, [_place(each, alive) for each in gc.get_referents(one)], _left(one, alive)


def _counts(one: Any) -> Iterator[Any]:
    # Yield plain attributes that a C class shows of an object, such as the line number of a CSV reader.
    for member in [each for each in vars(type(one)).values() if isinstance(each, MemberDescriptorType)]:
        with suppress(AttributeError):
            yield member.__get__(one)


def _items(one: Any) -> list[Any]:
    own = getattr(one, "queue", None)  # queues in Python have it; of those in C, only the contents are known
    held = [own] if own is not None else gc.get_referents(one)
    return [item for each in held for item in (each if hasattr(each, "__iter__") else [each])]


def _left(one: Any, alive: list[Any]) -> Any:
    # Return the number of remaining items, or else the pickled form of an iterator. Both show its position.
    kind: Any = type(one)
    if hasattr(kind, "__length_hint__"):
        with suppress(TypeError):  # raised if the iterator never ends
            return kind.__length_hint__(one)
    return _place(made_again(one), alive) if is_copyable(one) else None


def _place(one: Any, alive: list[Any]) -> Any:
    # Return a key that distinguishes two objects as long as both are alive. Numbers are compared by value, because they
    # are created anew each time, and iterators that know it by the number of their remaining items.
    if type(one) is tuple:
        return tuple(_place(each, alive) for each in one)
    if type(one) in SIMPLE and type(one) not in TEXTS:
        return repr(one)
    if hasattr(type(one), "__length_hint__"):
        return type(one).__length_hint__(one)
    alive.append(one)
    return id(one)
