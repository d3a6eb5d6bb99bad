"""Following calls: the user's functions that a program calls run as copies that report to a listener of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, Generic, Protocol, TypeVar

from backprobe.errors import NoSource
from backprobe.source.user_code import innermost, package

BUILTIN = (BuiltinFunctionType, type)
LOCALS = "<locals>"  # part of the qualified name of a function that another function has created
HIGHER_ORDER = (map, filter, functools.reduce)

Caller = TypeVar("Caller")
"""The listener of the code that makes a call."""


def plain_function(function: Any) -> FunctionType | None:
    """The plain function, or that of a method; None if it is a wrapper or was marked as one."""
    plain = function.__func__ if type(function) is MethodType else function
    return plain if type(plain) is FunctionType and not plain.__dict__ else None


Way = tuple[type, Any]
Known = dict[int | Way, CodeType | None]
"""Code by its identity, which is held for that, and ways of calling objects.

Code itself is no key: Python hashes all its instructions each time, which takes longer than many a call.
"""


def way_of(kind: type) -> Way:
    """The cache key for a type of objects: a program may give a class another ``__call__``."""
    return kind, getattr(kind, "__call__", None)  # noqa: B004  # what it is, and not whether there is one


class Callables(Protocol):
    """What a framework knows of the functions and objects that a program calls. The defaults here know
    nothing special.
    """

    def is_compiled(self, function: Any) -> bool:
        """Did the framework compile it, so that the functions inside cannot be replaced?"""
        return False

    def called(self, function: Any, modules_too: bool) -> tuple[Any, Callable[..., Any]] | None:
        """For an object that the framework calls in a special way: the function it runs, and how to run another
        instead.

        These are its transformations, its compiled functions and, with ``modules_too``, its modules.
        """
        return None

    def higher_order(self, function: Any) -> Callable[..., Any] | None:
        """For a function of the framework that calls functions given to it: what to call in its place."""
        return None

    def is_data(self, value: Any) -> bool:
        """Is this callable also a container of tensors, which a function may be given in order to look into it?"""
        return False

    def held(self, function: Any) -> Sequence[Any] | None:
        """The functions that a library's module holds and will call, if none of them can be replaced.

        None for anything else: then no other object of its type is such a module either.
        """
        return None

    def hidden(self, function: Any) -> Any:
        """What an object that is not a Python function says that it wraps."""
        try:
            return object.__getattribute__(function, "__dict__").get("__wrapped__")  # the object itself is not asked
        except AttributeError:
            return None

    def rule(self, function: Any) -> CodeType | None:
        """The code of the derivative rule that the program gave to its own function; None if not known.

        Such a function has no lines to record: its derivative is what the rule says.
        """
        return None


class NoteTaker(Protocol):
    """Takes the code of a note on what was not followed, and its fields."""

    def __call__(self, code: str, **fields: str) -> None: ...


class FollowedCalls(Generic[Caller]):
    """Which of the functions that a program calls are followed, and what is run in their place.

    ``home`` is the installed package that the program belongs to, if any. ``follows_modules`` is False if modules
    already report by a path of their own, whoever calls them.
    """

    def __init__(
        self, callables: Callables, note: NoteTaker, home: str | None, *, follows_modules: bool = True
    ) -> None:
        self.callables, self.note, self.home, self.follows_modules = callables, note, home, follows_modules
        self.foreign: Known = {}  # functions, and types of objects, that are not followed
        self.own: Known = {}  # functions that are followed

    def reporting(self, function: Any, caller: Caller, label: str) -> Any:
        """The reporting version of a function, under its own name or a label. Raises NoSource."""
        raise NotImplementedError

    def handing(self, function: Any, forget: Callable[[], object]) -> Any:
        """What to call in place of a function that is not followed: the function itself, or a wrapper that checks the
        functions passed to it.

        Calling ``forget`` makes the next call be checked as well.
        """
        return function

    def call_settled(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call what may run the functions that it is given several times, and keep but one of these runs."""
        return function(*args, **kwargs)

    def follow_once(self, caller: Caller, function: Any) -> Any:
        """What ``follow`` returns, to be called at once and not again."""
        return self.follow(caller, function)

    def follow(self, caller: Caller, function: Any) -> Any:
        """The reporting version of a function of the program; None where ``function`` is not that."""
        kind = type(function)
        if way_of(kind) in self.foreign:
            return None
        if kind is FunctionType and not function.__dict__:  # nothing is wrapped in it, and it is not compiled
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
                return None  # Python itself raises the error that it cannot be called
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
        # Next time a plain function or method is recognized by its code, and an object by its type, if the type defines
        # its call. Types created inside a function are not kept, since they would keep its variables alive.
        plain = plain_function(function) if called is None else None
        if plain is not None:
            if not plain.__code__.co_freevars:  # one decorator's wrappers share their code
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
        """Did the framework compile this callable? Then its inside is not seen, and a note says so."""
        is_compiled = self.callables.is_compiled(function)
        if is_compiled:
            self.note("compiled_not_followed", name=getattr(function, "__qualname__", None) or type(function).__name__)
        return is_compiled

    def _note_hidden(self, function: Any) -> None:
        # A decorator that is not a Python function, such as lru_cache, hides the user's function inside it.
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
        """Is it the user's, or part of the program's own package? ``inner`` is its innermost function."""
        installed = package(inner.__code__.co_filename)
        return installed is None or (installed != "" and installed == self.home)

    def _higher_order(self, caller: Caller, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        # The function itself may treat a following argument as data although it can be called: a model that is mapped
        # over.
        exchanged = functools.partial(self.exchanged, caller)
        if isinstance(function, functools.partial):  # it may hold tuples of functions, such as layers
            held = (exchanged(one) if isinstance(one, tuple) else one for one in function.args)
            function = functools.partial(function.func, *held, **function.keywords)
        is_data = self.callables.is_data
        rest = (one if is_data(one) else exchanged(one) for one in args[1:])
        words = {name: one if is_data(one) else exchanged(one) for name, one in kwargs.items()}
        return self.call_settled(function, *map(exchanged, args[:1]), *rest, **words)

    def exchanged(self, caller: Caller, argument: Any) -> Any:
        """An argument with the user's functions in it exchanged for reporting ones."""
        if isinstance(argument, tuple | list) and argument and all(map(callable, argument)):
            return [self.exchanged(caller, one) for one in argument]
        return (self.follow(caller, argument) or argument) if callable(argument) else argument
