"""Iterators, queues and streams that a program holds: if one run takes from them, the next would get other items.

Whether something was taken is observed. An iterator written in C shows its position by its contents, its remaining
length, or its pickled form; a generator by its frame; a file by its position, which is then restored. Where items are
requested by a method, the calls are heard: iterators of libraries, queues of other processes, sockets, and pipes.
Iterators of the program's own classes are restored like other objects.
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
from backprobe.backends.patching import listening
from backprobe.record.containers import SIMPLE, TEXTS

COUNTED = (queue.Queue, queue.SimpleQueue)
"""Queues whose items can be inspected."""

IMMUTABLE = 1 << 8  # the flag of a class that cannot be written to, such as those in C


class UsedUp(Exception):
    """A run would start with something from which an earlier one has taken."""

    def __init__(self, one: Any) -> None:
        super().__init__(type(one).__name__)
        self.one = one


def sources(reached: Iterable[Any]) -> list[Any]:
    """What of this gives other items each time it is asked, and is not put back.

    >>> sources([[1], iter([1]), (one for one in [1])])
    [<list_iterator object at 0x...>, <generator object <genexpr> at 0x...>]
    """
    return [one for one in reached if _is_source(type(one)) and not _is_written(one)]


def is_stream(kind: type) -> bool:
    """Does an object of this class go on whatever is put back of it? It has a file's descriptor, or it is a queue.

    >>> import multiprocessing.queues, socket
    >>> [is_stream(kind) for kind in (socket.socket, multiprocessing.queues.Queue, io.StringIO, dict)]
    [True, True, True, False]
    """
    if not _is_like_a_stream(kind):  # nearly always; then no base class is like a stream either
        return False
    return any(_is_like_a_stream(base) for base in kind.__mro__ if not is_of_program(base))


def _is_like_a_stream(kind: type) -> bool:
    return hasattr(kind, "fileno") or _is_queue(kind)


def is_lost(one: Any) -> bool:
    """Is what a run takes from this, or gives to it, out of reach of an undo? So it is not of a file that is only read.

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
    # Is it a file from which nothing can be taken?
    try:
        return isinstance(one, io.IOBase) and not one.readable()
    except ValueError:  # the file is closed
        return True


@contextmanager
def hearing_takes(held: Sequence[Any], taken: Callable[[Any], None]) -> Iterator[None]:
    """After this context ``taken`` has been given each of the sources ``held`` from which something was taken in it.

    Files that were only read are where they were.

    >>> items, found = iter([1, 2]), []
    >>> with hearing_takes([items], found.append):
    ...     item = next(items)
    >>> found == [items]
    True
    """
    alive: list[Any] = []  # keeps the contents of sources alive, so that no other object gets their identity
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
    # Reads from pipes change no position, and call no method in Python; only a profiler sees them, of which there is
    # one.
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
        if sys.getprofile() is returned:  # otherwise the program has set one of its own
            sys.setprofile(None)


def _asked_by(one: Any) -> Iterator[tuple[type, str]]:
    # The methods that give an item, written in Python or inherited by a Python class, with the classes to listen at.
    kind = type(one)
    names = ["__next__"] if issubclass(kind, Iterator) and not isinstance(one, io.IOBase) else []
    if is_stream(kind) and not isinstance(one, (io.IOBase, *COUNTED)):
        # a connection of ``multiprocessing`` is read by its own methods, which a queue has stored
        names = ["get"] if _is_queue(kind) else [name for name in dir(kind) if name.lstrip("_").startswith("recv")]
    for name in names:
        owner = next(base for base in kind.__mro__ if name in vars(base))
        if not isinstance(vars(owner)[name], MethodDescriptorType | WrapperDescriptorType):
            yield owner, name
        elif name != "__next__" and not kind.__flags__ & IMMUTABLE:
            yield kind, name


def _has_given(before: Any, now: Any) -> bool:
    # Putting an item into a queue is not taking one.
    if isinstance(before, frozenset):
        return not before <= now
    return bool(before != now)


def _is_set_back(one: Any, position: Any, alive: list[Any]) -> bool:
    # Is it a file that was only read, and could be set back?
    if not isinstance(one, io.IOBase) or position is None:
        return False
    with suppress(OSError, ValueError):  # the file is closed
        if not one.writable():
            one.seek(position)
        return not _has_given(position, _position(one, alive))
    return False


def _position(one: Any, alive: list[Any]) -> Any:
    # The position of a source: equal to the earlier one if nothing was taken, as far as can be seen.
    if isinstance(one, COUNTED):
        return frozenset(_place(item, alive) for item in _items(one))
    if isinstance(one, io.IOBase):
        with suppress(OSError, ValueError):  # it has no position, is closed, or is read by an iterator
            return one.tell()
        return None
    kind: Any = type(one)
    frame = one.gi_frame if kind is GeneratorType else None  # gets among its contents once it was asked for
    place = None if frame is None else frame.f_lasti
    counts = [_place(each, alive) for each in _counts(one)]
    return place, counts, [_place(each, alive) for each in gc.get_referents(one)], _left(one, alive)


def _counts(one: Any) -> Iterator[Any]:
    # What a C class shows about an object in plain attributes, such as the line number of a reader.
    for member in [each for each in vars(type(one)).values() if isinstance(each, MemberDescriptorType)]:
        with suppress(AttributeError):
            yield member.__get__(one)


def _items(one: Any) -> list[Any]:
    own = getattr(one, "queue", None)  # one of Python's; for one in C, the garbage collector knows its contents
    held = [own] if own is not None else gc.get_referents(one)
    return [item for each in held for item in (each if hasattr(each, "__iter__") else [each])]


def _left(one: Any, alive: list[Any]) -> Any:
    # The number of remaining items, or else the pickled form of an iterator: that shows its position.
    kind: Any = type(one)
    if hasattr(kind, "__length_hint__"):
        with suppress(TypeError):  # it never ends
            return kind.__length_hint__(one)
    return _place(made_again(one), alive) if is_copyable(one) else None


def _place(one: Any, alive: list[Any]) -> Any:
    # A key that distinguishes objects, as long as both live. Numbers are compared by value, as they are recreated each
    # time.
    if type(one) is tuple:
        return tuple(_place(each, alive) for each in one)
    if type(one) in SIMPLE and type(one) not in TEXTS:
        return repr(one)
    if hasattr(type(one), "__length_hint__"):
        return type(one).__length_hint__(one)
    alive.append(one)
    return id(one)
