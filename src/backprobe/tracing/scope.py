"""What rewritten code talks to: one entry of a function or of a module's forward, and what it has bound so far.

A ``Scope`` knows names; what they hold and what is written is the business of its ``Trace``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from backprobe.backends.facts import Effect
from backprobe.record.entries import GradStatus
from backprobe.record.names import strip
from backprobe.record.reasons import Reason
from backprobe.source import frame_builtins
from backprobe.source.listener import NO_CALL, CodeListener
from backprobe.source.sites import Site
from backprobe.tracing.provenance import Carried, Carrying, fill

if TYPE_CHECKING:
    from backprobe.tracing.trace import Trace

MOST_BUILTINS = 4096
BUILTINS: dict[tuple[type, str | None, type, str, bool], tuple[str, Effect]] = {}
"""What functions written in C are called, and what they may do, by tape, module, owner and name."""

NO_MODULES = (FunctionType, MethodType, type, functools.partial)
LOOKS_AT_FRAME = (locals, vars, dir, eval, exec)
OWN = "\0"  # between a local and the number of the comprehension it belongs to

Slot = tuple[tuple[str, "Value"], ...]
"""The values under one name: a tensor's under the leaf "", those of a container under their leaves."""

NamedAs = tuple["Scope | None", str, int, str]
"""Scope, local, count and leaf of a name; the scope is None for a parameter, whose local is its whole path."""


Log = list[tuple[str, str, Slot]]
"""What was named in one run of a part of the program: scope and local without counts, and the values."""


@dataclass(eq=False, slots=True)
class Value:
    """One value under its names: a tensor at one version, a plain number or None, or what a module never returned."""

    tensor: Any
    version: int
    capture: Any
    scope: Scope
    site: Site
    plain: Any = None
    absent: tuple[GradStatus, Reason] | None = None  # why what a module returned is not there
    previous: Value | None = None  # the same object's version before a write
    expression: str = ""  # what computes exactly this value
    calls: tuple[str, ...] = ()  # what the expression called
    reads: Sequence[tuple[str, Value]] = ()  # the values that its expression mentions, as it spells them
    passages: Sequence[tuple[str, Carried]] = ()  # the values that came in by other ways, see ``Entry``
    names: list[NamedAs] = field(default_factory=list)
    fulls: Sequence[str] = ()  # the names in full, when the run is over
    is_explained: bool = False  # is it said what computes it? A loop comes by the same statement again


class Scope(CodeListener):
    """One entry of a function or of a module's forward, and what it has bound so far."""

    def __init__(self, trace: Trace, parent: Scope | None, path: str, count: int, file: str = "") -> None:
        self.trace, self.parent, self.path, self.file = trace, parent, path, file
        self.renumber(count)
        self.stripped: str = strip(path) if parent is None or path[:1] != "/" else parent.stripped + path
        self.sites: Sequence[Site] = ()
        self.counts: dict[str, int] = {}  # how often each local was bound
        self.entered: dict[str, int] = {}  # how often each function was entered from here
        self.slots: dict[str, Slot] = {}  # what each live name holds now
        self.carried: Carrying = {}  # what names that hold no tensor were computed from
        self.passed_over: dict[str, bool] = {}  # names that were not selected: is what they hold differentiated?
        self.calls: list[str] = []  # what the running statement has called
        self.returned: list[tuple[str, Slot]] = []  # by the functions that the running statement has called
        self.comprehensions = 0
        self.dirty = False  # something was called that may have written to a value
        self.logs: Sequence[Log] = ()  # where this part of the program is computed again, or will be
        self.wanted = trace.selection.of_scope(self.stripped)
        self.follows = trace.selection.wants_calls(self.stripped)

    def renumber(self, count: int) -> None:
        """Which of the entries of its path this is, and so its full name."""
        self.count = count
        above: str = self.parent.full if self.parent is not None and self.path.startswith("/") else ""
        self.full: str = f"{above}{self.path}#{count}" if self.path else ""

    # what rewritten code calls

    def bind(self, at: int, value: Any) -> Any:
        """A statement binds ``value`` to the local of site ``at``."""
        site = self.sites[at]
        if self.dirty:
            self._settle(site)
        value = self.trace.name(self, site.local, value, site)
        if self.returned:
            self.returned.clear()
        if self.calls:
            self.calls.clear()
        return value

    def name(self, at: int, value: Any) -> Any:
        """As ``bind``, in the middle of a statement whose calls are not over."""
        site = self.sites[at]
        if self.dirty:
            self.trace.sweep(self, site)
        return self.trace.name(self, site.local, value, site)

    def done(self, at: int, value: Any) -> Any:
        """A statement that binds nothing is over."""
        if self.dirty:
            self._settle(self.sites[at])
        fill(self, self.sites[at])
        self.returned.clear()
        self.calls.clear()
        self.trace.renewed.clear()
        return value

    def writing(self, value: Any) -> None:
        if self.trace.is_recording and self.trace.tape.is_tensor(value):
            self.trace.writing(value)

    def written(self, value: Any) -> None:
        if self.trace.is_recording and self.trace.tape.is_tensor(value):
            self.trace.written(value)
            self.dirty = True

    def wrote(self, at: int, value: Any) -> Any:
        """``u += …`` is over: ``value`` is what the name holds now, the same object or a new one."""
        self.written(value)
        self._settle(self.sites[at])
        return self.bind(at, value)

    def storing(self, at: int, owner: Any, value: Any) -> Any:
        """``owner[…] = value`` is about to run: a write where the owner is a tensor, a binding elsewhere."""
        return value if self.trace.tape.is_tensor(owner) else self.bind(at, value)

    def stored(self, at: int, owner: Any) -> None:
        """``owner[…] = value`` is over."""
        if self.trace.tape.is_tensor(owner):
            self.written(owner)
            self._settle(self.sites[at])
            self.trace.renewed.clear()

    def expose(self, value: Any) -> Any:
        if self.trace.is_recording and self.trace.tape.is_tensor(value):
            self.trace.expose(value)
            self.dirty = True  # the statement may write through it
        return value

    def each(self, template: Any, values: Any) -> Iterator[Any]:
        """The items of a comprehension's iterable, each bound to the comprehension's targets."""
        self.comprehensions += 1
        own = f"{OWN}{self.comprehensions}"
        try:
            for value in values:
                yield self._bind_template(template, value, own)
        finally:
            for key in [key for key in self.slots if key.endswith(own)]:
                del self.slots[key]

    def forget(self, *names: str) -> None:
        """The program deleted these names."""
        for name in names:
            self.slots.pop(name, None)

    def call(self, function: Any, flagged: bool = False, at: int = NO_CALL, /) -> Any:
        """What to call instead of ``function``: its reporting version, or itself with an eye on what it writes."""
        trace = self.trace
        if type(function) is BuiltinFunctionType:
            return self._call_builtin(function, flagged)
        if not trace.is_recording:
            return function
        if self.follows:
            followed = trace.following.follow(self, function)
            if followed is not None:
                self.calls.append("")
                return followed
        called = trace.tape.called(function, False)
        self.calls.append(_origin(function if called is None else called[0]))
        watched = self._watched(function, trace.tape.effect(function, flagged))
        may_be_module = not trace.selection.in_function and not isinstance(function, NO_MODULES)
        return functools.partial(self._call_module, watched) if may_be_module else watched

    def _call_module(self, module: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call what reports under a path of its own: the running statement mentions what it returns."""
        result = module(*args, **kwargs)
        self.trace.mention_returned(self, result)
        return result

    def _watched(self, function: Any, effect: Effect) -> Any:
        if effect is Effect.READS:
            return function
        self.dirty = True
        return function if effect is Effect.UNKNOWN else functools.partial(self.trace.call_writer, function)

    def _call_builtin(self, function: Any, flagged: bool) -> Any:
        """A function written in C: its kind tells all, and most of what programs call is of few kinds."""
        trace = self.trace
        if function in LOOKS_AT_FRAME:
            return frame_builtins.seen_by(function)
        if not trace.is_recording:
            return function
        if function is functools.reduce and self.follows:
            self.calls.append("")
            return trace.following.follow(self, function)
        owner = function.__self__
        home = owner if isinstance(owner, type) else type(owner)
        kind = type(trace.tape), function.__module__, home, function.__name__, flagged
        known = BUILTINS.get(kind)
        if known is None:
            if len(BUILTINS) > MOST_BUILTINS:  # classes may be made anew
                BUILTINS.clear()
            known = BUILTINS[kind] = _origin(function), trace.tape.effect(function, flagged)
        self.calls.append(known[0])
        return self._watched(function, known[1])

    def called(self, function: Any, args: Sequence[Any], kwargs: dict[str, Any], flagged: bool) -> list[Any]:
        """A call that is only looked at is about to run: the tensors that it may write to, as far as can be told."""
        trace = self.trace
        self.calls.append(_origin(function))
        effect = trace.tape.effect(function, flagged)
        if effect is not Effect.READS:
            self.dirty = True
        targets: list[Any] = trace.targets(function, args, kwargs) if effect is Effect.WRITES else []
        for tensor in targets:
            trace.writing(tensor)
        return targets

    def __enter__(self) -> Scope:
        return self

    def __exit__(self, *error: object) -> None:
        self.exit()

    def exit(self) -> None:
        self.trace.leave(self)

    def has_returned(self, value: Value) -> bool:
        """Has a function or module returned it that the running statement has called?"""
        return any(value is returned for _, slot in self.returned for _, returned in slot)

    # looking after writes, and the targets of comprehensions

    def _settle(self, site: Site) -> None:
        self.dirty = False
        self.trace.sweep(self, site)

    def _bind_template(self, template: Any, value: Any, own: str) -> Any:
        if isinstance(template, int):
            site = self.sites[template]
            if self.dirty:
                self.trace.sweep(self, site)
            return self.trace.name(self, site.local, value, site, own)
        if isinstance(template, tuple) and isinstance(value, tuple | list) and len(template) == len(value):
            bound = [self._bind_template(inner, item, own) for inner, item in zip(template, value, strict=True)]
            return bound if self.trace.tape.exchanges else value
        return value


def _origin(function: Any) -> str:
    """The library and name of a function; of any other callable, of its type, without asking the object anything."""
    if not isinstance(function, BuiltinFunctionType | FunctionType):
        return f"{type(function).__module__.split('.')[0]}.{type(function).__name__}"
    owner = getattr(function, "__self__", None)  # a method's object, or a builtin function's module
    module = function.__module__ or (owner if isinstance(owner, type) else type(owner)).__module__
    return f"{module.split('.')[0]}.{function.__name__}"
