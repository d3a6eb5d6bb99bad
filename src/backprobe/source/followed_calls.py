"""Follows calls: the user's functions that a program calls run as copies, which report to listeners of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, Generic, Protocol, TypeVar

from backprobe.errors import NoSource
from backprobe.source.user_code import innermost, is_of_program

BUILTIN = (BuiltinFunctionType, type)
LOCALS = "<locals>"  # part of the qualified name of a function defined in another one
HIGHER_ORDER = (map, filter, functools.reduce)

Caller = TypeVar("Caller")
"""The type of the listener for the code that makes a call."""


def plain_function(function: Any) -> FunctionType | None:
    """Return the plain function, or the function of a method. None for any other object, and for a function with
    attributes, such as one that wraps another.
    """
    plain = function.__func__ if type(function) is MethodType else function
    return plain if type(plain) is FunctionType and not plain.__dict__ else None


Way = tuple[type, Any]
Known = dict[int | Way, CodeType | None]
"""A cache about called objects. A key is the identity of a code object, or a way of calling an object.

The value of an identity is the code object itself, because an identity is only unique while the object exists. A code
object would be a slow key: Python hashes all its instructions each time, which takes longer than many calls.
"""


class Held:
    """Wraps an object that has no hash, such as a method of pybind11, so that it can be a key. Two wrappers of the same
    object are equal. The wrapper keeps the object alive.
    """

    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held

    def __eq__(self, other: object) -> bool:
        return type(other) is Held and self.held is other.held

    def __hash__(self) -> int:
        return id(self.held)


def way_of(kind: type) -> Way:
    """Return the cache key for calls of objects of a type. It contains ``__call__``, because a program may replace that
    method.
    """
    call = getattr(kind, "__call__", None)  # noqa: B004  # what it is, and not whether there is one
    try:
        hash(call)
    except TypeError:
        return kind, Held(call)
    return kind, call


class Callables(Protocol):
    """Facts about a framework's functions and objects that a program calls. This base class knows no framework."""

    def __init__(self) -> None:
        """Define a constructor, so that a subclass without one never gets ``object.__init__`` set by Python's
        ``Protocol``. That would hide the constructors of other base classes.
        """
        super().__init__()

    def is_compiled(self, function: Any) -> bool:
        """Did the framework compile the function, so that functions inside it cannot be replaced?"""
        return False

    def called(self, function: Any, modules_too: bool) -> tuple[Any, Callable[..., Any]] | None:
        """If the framework calls an object in a special way, return the function that the object runs, and a
        replacement.

        The replacement runs another function in the same way. Such objects are transforms, compiled functions and, with
        ``modules_too``, modules. None for other objects.
        """
        return None

    def higher_order(self, function: Any) -> Callable[..., Any] | None:
        """If a function of the framework calls functions passed to it, return the function to call instead; otherwise
        None.
        """
        return None

    def is_data(self, value: Any) -> bool:
        """Is this callable also a container of tensors, so that a function may receive it as data?"""
        return False

    def held(self, function: Any) -> Sequence[Any] | None:
        """Return the functions that a library's module holds and will call, if none of them can be replaced.

        None for any other object. In that case, no object of the same type is such a module.
        """
        return None

    def hidden(self, function: Any) -> Any:
        """Return the function in ``__wrapped__`` of an object that is not a Python function; None if there is none."""
        try:
            return object.__getattribute__(function, "__dict__").get("__wrapped__")  # this runs no code of the object
        except AttributeError:
            return None

    def rule(self, function: Any) -> CodeType | None:
        """Return the code of the derivative rule that the program defined for its own function; None if not known.

        The lines of such a function are not recorded, because its derivative comes from the rule.
        """
        return None


class NoteTaker(Protocol):
    """Receives the code and fields of a note about a function that was not followed."""

    def __call__(self, code: str, **fields: str) -> None: ...


class FollowedCalls(Generic[Caller]):
    """Decides which functions that a program calls are followed. Those run as copies, which report.

    ``home`` is the installed package that the program belongs to, if any. ``follows_modules`` is False if modules
    already report by their own paths.
    """

    def __init__(
        self, callables: Callables, note: NoteTaker, home: str | None, *, follows_modules: bool = True
    ) -> None:
        self.callables, self.note, self.home, self.follows_modules = callables, note, home, follows_modules
        self.foreign: Known = {}  # functions, and types of objects, that are not followed
        self.own: Known = {}  # functions that are followed

    def reporting(self, function: Any, caller: Caller, label: str) -> Any:
        """Return the reporting copy of a function, under its own name or a label. Raises NoSource."""
        raise NotImplementedError

    def handing(self, function: Any, forget: Callable[[], object]) -> Any:
        """Return the function to call instead of one that is not followed: itself, or a wrapper that checks the
        functions passed to it.

        The wrapper calls ``forget`` if it finds such functions, so that the next call is checked as well.
        """
        return function

    def call_settled(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function that may run the functions passed to it several times, but use only one of the runs."""
        return function(*args, **kwargs)

    def follow_once(self, caller: Caller, function: Any) -> Any:
        """Like ``follow``, for a function that is called immediately and only once."""
        return self.follow(caller, function)

    def follow(self, caller: Caller, function: Any) -> Any:
        """Return the reporting copy of a function of the program. For a higher-order function or a transform, return a
        function that passes reporting copies to it. None if the call is not followed.
        """
        kind = type(function)
        if way_of(kind) in self.foreign:
            return None
        if kind is FunctionType and not function.__dict__:  # a plain function that is no wrapper and is not compiled
            known = id(function.__code__)
            if known in self.foreign:
                return None
            if known in self.own:
                return self._reporting(function, caller, "", function)
        if isinstance(function, BUILTIN):
            return functools.partial(self._higher_order, caller, function) if function in HIGHER_ORDER else None
        higher_order = self.callables.higher_order(function)
        if higher_order is not None:
            return functools.partial(self._higher_order, caller, higher_order)
        label, given = "", function
        called: tuple[Any, Any] | None = self.callables.called(function, self.follows_modules)
        inner, call = innermost(function), None
        if called is not None or inner is None:
            if function is None:
                return None  # Python itself raises the error, because it is not callable
            if called is None:
                self._note_hidden(function)
                called = MethodType(kind.__call__, function), None
            if getattr(called[0], "__self__", None) is function:
                label = type(function).__name__
            function, call = called
            inner = innermost(function)
        if inner is None or not self.is_followed(function, inner):
            held = self.callables.held(given)
            if held is None and self.callables.hidden(given) is None:
                self._know_foreign(kind, called, inner, function)
            for one in held or ():
                self._note_held(one, given)
            return None
        if self.note_compiled(function):
            return None
        if called is None and (plain := plain_function(function)) is not None:
            self.own[id(plain.__code__)] = plain.__code__
        followed = self._reporting(function, caller, label, inner)
        return followed if followed is None or call is None else functools.partial(self.call_settled, call, followed)

    def _know_foreign(self, kind: type, called: Any, inner: FunctionType | None, function: Any) -> None:
        # Remember, if possible, that this callable is not followed: a plain function or method by its code, another
        # object by its type. Types created inside a function are not remembered, because they would keep the
        # function's variables alive.
        plain = plain_function(function) if called is None else None
        if plain is not None:
            if not plain.__code__.co_freevars:  # all wrappers of a decorator share their code
                self.foreign[id(plain.__code__)] = plain.__code__
            return
        defines_it = called is not None and called[1] is None and inner is getattr(called[0], "__func__", None)
        if defines_it and LOCALS not in kind.__qualname__:
            self.foreign[way_of(kind)] = None

    def _reporting(self, function: Any, caller: Caller, label: str, inner: FunctionType) -> Any:
        try:
            return self.reporting(function, caller, label)
        except NoSource as error:
            self.note("not_followed", name=inner.__qualname__, why=error.headline)
            return None

    def note_compiled(self, function: Any) -> bool:
        """Did the framework compile this callable? Then functions inside it cannot be observed, and a note is added."""
        is_compiled = self.callables.is_compiled(function)
        if is_compiled:
            self.note("compiled_not_followed", name=getattr(function, "__qualname__", None) or type(function).__name__)
        return is_compiled

    def _note_hidden(self, function: Any) -> None:
        # Add a note if a decorator that is not a Python function, such as lru_cache, contains a function of the user.
        held = self.callables.hidden(function)
        if innermost(held) is None:
            self.note_compiled(function)
        self._note_held(held, function)

    def _note_held(self, held: Any, by: Any) -> None:
        wrapped = innermost(held)
        if wrapped is None or not self.is_followed(held, wrapped):
            return
        rule, name = self.callables.rule(by), wrapped.__qualname__
        if rule is None and type(by) is FunctionType and not hasattr(by, "__wrapped__"):
            self.note("hidden_in_function", name=name, function=by.__qualname__.rpartition(".")[2])
        elif rule is None:
            self.note("hidden_in_object", name=name, kind=type(by).__name__)
        else:
            at = f"{rule.co_filename}:{rule.co_firstlineno}"
            self.note("own_rule", name=name, rule=rule.co_name, at=at)

    def is_followed(self, function: Any, inner: FunctionType) -> bool:
        """Does the function belong to the user or to the program's own package? ``inner`` is the plain function inside
        it.
        """
        return is_of_program(inner.__code__.co_filename, self.home)

    def _higher_order(self, caller: Caller, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        # Call the function. Functions among its arguments are replaced by copies that report. An argument other than
        # the first may be callable and still be data, such as a model that is mapped over.
        exchanged = functools.partial(self.exchanged, caller)
        if isinstance(function, functools.partial):  # it may contain tuples of functions, such as layers
            held = (exchanged(one) if isinstance(one, tuple) else one for one in function.args)
            function = functools.partial(function.func, *held, **function.keywords)
        is_data = self.callables.is_data
        rest = (one if is_data(one) else exchanged(one) for one in args[1:])
        words = {name: one if is_data(one) else exchanged(one) for name, one in kwargs.items()}
        return self.call_settled(function, *map(exchanged, args[:1]), *rest, **words)

    def exchanged(self, caller: Caller, argument: Any) -> Any:
        """Return an argument in which the user's functions are replaced by copies that report."""
        if isinstance(argument, tuple | list) and argument and all(map(callable, argument)):
            return [self.exchanged(caller, one) for one in argument]
        return (self.follow(caller, argument) or argument) if callable(argument) else argument
