"""The scope to which rewritten code reports: one call of a function or of a module's forward.

A ``Scope`` reports what its code does, statement by statement. It gives no names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any, Protocol

from backprobe.backends.facts import Effect
from backprobe.backends.protocol import Tape
from backprobe.record.containers import exchanged
from backprobe.record.patterns import Selection
from backprobe.source import frame_builtins
from backprobe.source.followed_calls import HIGHER_ORDER, LOCALS, FollowedCalls, Known, plain_function, way_of
from backprobe.source.listener import NO_CALL, CodeListener
from backprobe.source.sites import Site
from backprobe.tracing.log import (
    BY_ITSELF,
    CALLED,
    CARRIED,
    DONE,
    EACH,
    FORGET,
    NAMED,
    NO_SITE_AT,
    OVER,
    PASSED_OVER,
    PLAIN,
    READ,
    STORED,
    Code,
    ScopeKind,
)
from backprobe.tracing.replacing import Replacing
from backprobe.tracing.values import OWN, ScopeNames

PLAIN_TYPES = frozenset({bool, int, float, complex, type(None)})
MOST_KNOWN = 4096
ENDS_WITH_ITS_LAYERS = ("Sequential", "Dense", "Activation")
"""Classes whose objects get a name that depends on their layers: see ``_ends_with``."""

HOMES = frozenset({ModuleType, type})
NO_MODULES = (FunctionType, MethodType, type, functools.partial)


class Recorder(Protocol):
    """The object to which scopes report. It connects the running program with the part that names its values."""

    is_recording: bool
    takes_all: bool
    """Are all bindings recorded, without exchanging any value?"""

    tape: Tape
    ordinary: frozenset[type]
    disturbed: Callable[[], int]
    plain: list[Any]
    bare: set[type]
    """Types of values that hold no tensor: they are neither tensors nor containers."""

    foreign: Known
    """Code that is not followed, and types of objects that are not followed."""

    own: Known
    """Code of functions that are followed."""

    known_calls: dict[Any, tuple[str, Effect, Any]]
    """The names and effects of functions that are not followed, and of types whose objects are not followed.

    A key may contain the identity of a code object. The last item of the value keeps this code object alive.
    """

    tap: Callable[[Any], Any] | None
    replacing: Replacing | None
    selection: Selection

    @property
    def following(self) -> FollowedCalls[Any]:
        """Replaces functions that the program calls by copies that report to scopes."""

    events: list[Any]
    """The events of the log: see ``tracing.log``."""

    @property
    def say(self) -> Callable[[Iterable[Any]], None]:
        """Add an event to the log."""

    def effect(self, function: Any, flagged: bool, /) -> Effect:
        """Return what a call may do to the memory of values that have names."""

    def code(self, scope: Scope, local: str, at: int, value: Any, own: str = "") -> Code:
        """Return the code of the value that a local is bound to. Its selected tensors are captured now."""

    def bound(self, tensor: Any, scope: Scope, at: int, key: str) -> int:
        """Return the number of an ordinary tensor to which a selected local is bound."""

    def mentioned(self, scope: Scope, output: Any) -> None:
        """Called when a module, which the running statement called, returns ``output``."""

    def enter(self, caller: Scope, name: str, file: str, sites: Sequence[Site]) -> Scope:
        """Called when a function that the running statement calls is entered. Returns its scope."""

    def forget(self, scope: Scope, keys: Sequence[str]) -> None:
        """Forget these names of a scope."""

    def look(self, scope: Scope, at: int, value: Any) -> None:
        """Called when a statement is over, with the value that it binds or computes, if known. It may have changed the
        containers that it mentions.
        """

    def leave(self, scope: Scope) -> None:
        """Called when a scope ends. None of its names is live any more."""

    def call_writer(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function that may write to some of its arguments."""

    def targets(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Return the tensors to which a call may write."""

    def writing(self, tensor: Any) -> None:
        """Called before the program writes to a tensor."""

    def written(self, tensor: Any) -> None:
        """Called after the program has written to a tensor."""

    def expose(self, tensor: Any) -> None:
        """Called when the program gets an object through which it may write to a tensor without being observed."""

    def sweep(self, scope: Scope, at: int) -> None:
        """Find the values that were written to, because a function was called that may have written to any value."""

    def note(self, code: str, **fields: str) -> None:
        """Add a note that something could not be observed."""

    def names_of(self, scope: Scope) -> ScopeNames:
        """Return the current names of a scope."""


class Scope(CodeListener):
    """One call of a function or of a module's forward, while its code runs."""

    dirty = False  # may a value have been written to since the last search for writes?
    has_held = False  # has a name of this scope held a tensor?
    several: Mapping[str, int] = MappingProxyType({})  # by name of a container: its number of captured tensors, if > 1
    mixed: Mapping[str, Any] = MappingProxyType({})  # by name of a container with plain numbers: its selected leaves
    held: dict[str, Any] = {}  # noqa: RUF012  # containers that its names hold and a program may change
    comprehensions = 0

    def __init__(self, recorder: Recorder, kind: ScopeKind, number: int = 0) -> None:
        self.recorder, self.kind, self.number = recorder, kind, number
        self.sites, self.locals, self.wants = kind.sites, kind.locals, kind.wants
        self.live: dict[Any, Any] = {}  # by name; further tensors of a container have (name, place)
        self.stamps: dict[Any, int] = {}  # for each tensor in ``live``, the version at which it was captured

    # Methods that rewritten code calls.

    def bind(self, at: int, value: Any) -> Any:
        """Called when a statement binds ``value`` to the local of site ``at``. Returns the value to bind."""
        recorder = self.recorder
        if self.dirty or not recorder.takes_all:
            if not recorder.is_recording:
                return value
            value = self._looked_after(at, value)
        kind = type(value)
        if kind in recorder.ordinary and self.wants[at] and not recorder.disturbed():
            code: Code = recorder.bound(value, self, at, self.locals[at])
        elif kind in PLAIN_TYPES and self.locals[at] not in self.live:
            code = PASSED_OVER
            if self.wants[at]:
                recorder.plain.append(value)
                code = PLAIN
        elif kind in recorder.bare and self.locals[at] not in self.live:
            code = CARRIED
        else:
            code = recorder.code(self, self.locals[at], at, value)
        recorder.say((self.number, at, code))
        if self.held and not self.held.keys().isdisjoint(self.sites[at].origin.reads):
            recorder.look(self, at, value)
        return value

    def _looked_after(self, at: int, value: Any) -> Any:
        # Return the value to bind, after a search for writes that the statement has made.
        if self.dirty:
            self.dirty = False
            self.recorder.sweep(self, at)
        return value if self.recorder.tap is None else exchanged(value, self.recorder.tap, [])

    def name(self, at: int, value: Any, own: str = "") -> Any:
        """Like ``bind``, but called inside a statement that is not over.

        ``own`` distinguishes the variable of a comprehension from one of the function.
        """
        recorder = self.recorder
        if not recorder.is_recording:
            return value
        if self.dirty:
            recorder.sweep(self, at)
        if recorder.tap is not None:
            value = exchanged(value, recorder.tap, [])
        code = recorder.code(self, self.locals[at], at, value, own)
        recorder.events += (self.number, EACH, (at, own, code)) if own else (self.number, at + NAMED, code)
        return value

    def done(self, at: int, value: Any) -> Any:
        """Called when a statement that binds nothing is over."""
        if self.dirty:
            self._settle(at)
        if self.recorder.is_recording:
            self.recorder.events += (self.number, at + DONE, None)
            if self.held:
                self.recorder.look(self, at, value)
        return value

    def writing(self, value: Any) -> None:
        if self.recorder.is_recording and self.recorder.tape.is_tensor(value):
            self.recorder.writing(value)

    def written(self, value: Any) -> None:
        if self.recorder.is_recording and self.recorder.tape.is_tensor(value):
            self.recorder.written(value)
            self.dirty = True

    def wrote(self, at: int, value: Any) -> Any:
        """Called after ``u += …``. ``value`` is the object that the name holds now, which may be the same or a
        new one.
        """
        self.written(value)
        self._settle(at)
        return self.bind(at, value)

    def storing(self, at: int, owner: Any, value: Any) -> Any:
        """Called before ``owner[…] = value``. This is a write if the owner is a tensor, and otherwise a binding."""
        return value if self.recorder.tape.is_tensor(owner) else self.bind(at, value)

    def stored(self, at: int, owner: Any) -> None:
        """Called after ``owner[…] = value``."""
        if self.recorder.tape.is_tensor(owner):
            self.written(owner)
            self._settle(at)
            self._say(STORED, None)
        elif self.held and self.recorder.is_recording:
            self.recorder.look(self, at, None)

    def expose(self, value: Any) -> Any:
        if self.recorder.is_recording and self.recorder.tape.is_tensor(value):
            self.recorder.expose(value)
            self.dirty = True  # the statement may write through the exposed object
        return value

    def each(self, template: Any, values: Any) -> Iterator[Any]:
        """Yield the items of a comprehension's iterable. Each item is bound to the comprehension's targets."""
        own = self.begin_comprehension()
        try:
            for value in values:
                yield self._bind_template(template, value, own)
        finally:
            self.end_comprehension(own)

    def begin_comprehension(self) -> str:
        """Called when a comprehension begins. Returns a mark that distinguishes its variables from those of the
        function.
        """
        self.comprehensions += 1
        return f"{OWN}{self.comprehensions}"

    def end_comprehension(self, own: str) -> None:
        self.recorder.forget(self, [key for key in self.live if type(key) is str and key.endswith(own)])
        self._say(OVER, own)

    def forget(self, *names: str) -> None:
        """Called when the program has deleted these names."""
        self.recorder.forget(self, names)
        self._say(FORGET, names)

    def call(self, function: Any, flagged: bool = False, at: int = NO_CALL, /) -> Any:
        """Return the function that is called instead of ``function``: its reporting copy, a wrapper that observes its
        writes or its result, or the function itself.
        """
        recorder, kind, is_object = self.recorder, type(function), False
        if kind is BuiltinFunctionType:
            owner = function.__self__
            home = type(owner)
            key: Any = owner if home in HOMES else home, function.__name__, flagged
        elif (plain := plain_function(function)) is not None:
            code = plain.__code__
            if self.kind.follows and id(code) in recorder.own and recorder.is_recording:
                followed = recorder.following.follow_once(self, function)
                if followed is not None:
                    self._say(CALLED, "")
                    return followed
            owner = type(function.__self__) if kind is MethodType else None
            key = id(code), owner, plain.__module__, plain.__name__, flagged, self.kind.follows
        elif kind is type:
            key = function, flagged
        else:
            key, is_object = way_of(kind), True
        known = recorder.known_calls.get(key)
        if known is None or not recorder.is_recording:
            return self._call_unknown(function, flagged, key)
        origin, effect, _ = known
        recorder.say((self.number, CALLED, origin))
        if not is_object:
            return function if effect is Effect.READS else self._watched(function, effect)
        effect = recorder.effect(function, flagged)  # only the name of an object is known, not its effect
        watched = function if effect is Effect.READS else self._watched(function, effect)
        return watched if recorder.selection.in_function else functools.partial(self._call_module, watched)

    def _call_unknown(self, function: Any, flagged: bool, key: Any) -> Any:
        # Like ``call``, if nothing is known about the function under ``key``, or nothing is being recorded.
        recorder = self.recorder
        is_builtin = type(function) is BuiltinFunctionType
        if is_builtin and function in frame_builtins.LOOKS_AT_FRAME:
            return frame_builtins.seen_by(function)
        if not recorder.is_recording:
            return function
        if is_builtin and function is functools.reduce and self.kind.follows:
            self._say(CALLED, "")
            return recorder.following.follow(self, function)
        if self.kind.follows and not is_builtin:
            followed = recorder.following.follow_once(self, function)
            if followed is not None:
                self._say(CALLED, "")
                return followed
        called = None if is_builtin else recorder.tape.called(function, False)
        origin, effect = _origin(function if called is None else called[0]), recorder.effect(function, flagged)
        if called is None and function is not functools.reduce:
            self._know(function, key, origin, effect)
        self._say(CALLED, origin)
        watched = self._watched(function, effect)
        if self.kind.follows and not is_builtin and watched is function:
            watched = recorder.following.handing(function, lambda: recorder.known_calls.pop(key, None))
        may_be_module = (
            not is_builtin and not recorder.selection.in_function and not issubclass(type(function), NO_MODULES)
        )
        return functools.partial(self._call_module, watched) if may_be_module else watched

    def _know(self, function: Any, key: Any, origin: str, effect: Effect) -> None:
        # Store facts about the function under ``key``, unless another function with the same key may differ or be
        # followed.
        known, foreign, kind = self.recorder.known_calls, self.recorder.foreign, type(function)
        if kind is FunctionType:
            is_known = key[0] is not kind and (not self.kind.follows or id(function.__code__) in foreign)
        elif kind is MethodType:
            is_lasting = key[0] is not kind and LOCALS not in type(function.__self__).__qualname__
            is_known = is_lasting and (not self.kind.follows or id(function.__func__.__code__) in foreign)
        elif kind is type:
            is_known = LOCALS not in function.__qualname__ and function not in HIGHER_ORDER
        elif key[0] is kind:
            is_object = key in foreign and not issubclass(kind, NO_MODULES)
            is_known = self.kind.follows and is_object and kind.__name__ not in ENDS_WITH_ITS_LAYERS
        else:  # a key is shared by all classes of a metaclass
            owner = function.__self__
            is_known = type(owner) is type or not isinstance(owner, type)
        if is_known:
            if len(known) > MOST_KNOWN:  # a program may create classes and functions in an endless loop
                known.clear()
            held = plain_function(function)
            known[key] = origin, effect, None if held is None else held.__code__

    def _call_module(self, module: Any, /, *args: Any, **kwargs: Any) -> Any:
        # Call a module. It reports under its own path, and the running statement mentions its return value.
        result = module(*args, **kwargs)
        if self.recorder.is_recording:
            self.recorder.mentioned(self, result)
        return result

    def _watched(self, function: Any, effect: Effect) -> Any:
        if effect is Effect.READS:
            return function
        if effect is Effect.AS_ASKED:
            return functools.partial(self._call_as_asked, function)
        self.dirty = True
        return function if effect is Effect.UNKNOWN else functools.partial(self.recorder.call_writer, function)

    def _call_as_asked(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        # Call a function that writes only if an argument such as ``out=`` asks for it.
        if not (self.recorder.is_recording and self.recorder.targets(function, args, kwargs)):
            return function(*args, **kwargs)
        self.dirty = True
        return self.recorder.call_writer(function, *args, **kwargs)

    def __enter__(self) -> Scope:
        return self

    def exit(self, *error: object) -> None:
        """Called when the code of this scope is left, normally or by an error."""
        recorder = self.recorder
        if self.dirty and recorder.is_recording:
            recorder.sweep(self, NO_SITE_AT)
        recorder.leave(self)

    __exit__ = exit  # noqa: A003  # the builtin is not meant

    # Methods for code that is observed but not rewritten.

    def before_call(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any], flagged: bool) -> list[Any]:
        """Called before a call. Returns the tensors to which it may write, as far as they are known."""
        recorder = self.recorder
        self._say(CALLED, _origin(function))
        effect = recorder.effect(function, flagged)
        may_write = effect in (Effect.WRITES, Effect.AS_ASKED)
        targets: list[Any] = recorder.targets(function, args, kwargs) if may_write else []
        if targets or effect not in (Effect.READS, Effect.AS_ASKED):
            self.dirty = True
        for tensor in targets:
            recorder.writing(tensor)
        return targets

    def before_unknown_call(self) -> None:
        """Called before a call about which nothing is known."""
        self.dirty = True
        self._say(CALLED, "?")

    def before_unknown_write(self) -> None:
        """Called before a write to an unknown object."""
        self.dirty = True

    def enter(self, name: str, file: str, sites: Sequence[Site]) -> Scope:
        """Called when the function that the running statement called is entered. Returns its scope, to which it
        reports.
        """
        self._say(BY_ITSELF, None)
        return self.recorder.enter(self, name, file, sites)

    def read(self, local: str, value: Any) -> None:
        """Called when a name from before the block is read for the first time. Its value is an input."""
        if self.recorder.is_recording:
            if self.recorder.tap is not None:
                value = exchanged(value, self.recorder.tap, [])
            self._say(READ, (local, self.recorder.code(self, local, NO_SITE_AT, value)))

    # Methods that find writes, and that bind the targets of comprehensions.

    def _say(self, word: int, said: Any) -> None:
        if self.recorder.is_recording:
            self.recorder.say((self.number, word, said))

    def _settle(self, at: int) -> None:
        self.dirty = False
        if self.recorder.is_recording:
            self.recorder.sweep(self, at)

    def _bind_template(self, template: Any, value: Any, own: str) -> Any:
        if isinstance(template, int):
            return self.name(template, value, own)
        if isinstance(template, tuple) and isinstance(value, tuple | list) and len(template) == len(value):
            bound = [self._bind_template(inner, item, own) for inner, item in zip(template, value, strict=True)]
            return value if self.recorder.tap is None and self.recorder.replacing is None else bound
        return value


def _ends_with(function: Any) -> str:
    # Return the suffix of a name: for a Dense or Activation layer its activation, unless that is linear; for a
    # Sequential model the suffix of its last layer, or else that layer's class. It is empty for anything else.
    held, kind = getattr(function, "__dict__", {}), type(function).__name__
    layers = [*(held.get("_modules") or held.get("_layers") or ())] if kind == "Sequential" else []
    if layers:
        last = held["_modules"][layers[-1]] if "_modules" in held else layers[-1]
        return _ends_with(last) or f".{type(last).__name__}"
    activation = getattr(held.get("activation"), "__name__", "linear") if kind in ("Dense", "Activation") else "linear"
    return "" if activation == "linear" else f".{activation.title().replace('_', '')}"


def _origin(function: Any) -> str:
    # Return the library and the name of a function. For other callables, return those of the type, because reading the
    # object might run code.
    if not isinstance(function, BuiltinFunctionType | FunctionType):
        return f"{type(function).__module__.split('.')[0]}.{type(function).__name__}{_ends_with(function)}"
    owner = getattr(function, "__self__", None)  # the object of a method, or the module of a builtin
    module = function.__module__ or (owner if isinstance(owner, type) else type(owner)).__module__
    return f"{module.split('.')[0]}.{function.__name__}"
