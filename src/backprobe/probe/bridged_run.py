"""One run of a script in which the results of some statements are bridged, or the values that they read are moved."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import get_ident
from types import FrameType, ModuleType
from typing import Any

from backprobe.backends.bridging import BridgedPass, Bridges
from backprobe.backends.patching import patched
from backprobe.backends.user_lines import callers
from backprobe.record.containers import SIMPLE, children
from backprobe.source.bridged_code import BEGIN, MADE, SEEN, Statement
from backprobe.source.user_code import package

MANY = 100  # the most items of a container that are examined
MOST_SOURCES = 1000  # earlier sources of one list or sum that are kept, from the first
CHANGED = object()  # stands for the new value of a variable after ``total += loss.item()``


class Enough(SystemExit):
    """Raised in the script when the run has shown enough, or takes too long."""


@dataclass(eq=False)
class RunningStatement:
    """A statement that is running, with the values that it has read so far. ``left`` are sources of numbers that it has
    read, and of values that functions have returned to it.
    """

    number: int
    seen: list[Any] = field(default_factory=list)
    before: list[Any] = field(default_factory=list)
    left: list[tuple[list[Any], bool]] = field(default_factory=list)
    undo: list[Callable[[], None]] = field(default_factory=list)


@dataclass
class Arrival:
    """A tensor with respect to which the program differentiates: whether a gradient arrived at it in some pass, and
    whether it would lack one in all passes without the bridges.
    """

    tensor: Any
    arrived: bool = False
    lacked: bool = True


@dataclass(frozen=True)
class BridgingPlan:
    """The changes that are made in a run.

    The results of the statements in ``targets`` get the history of the values that the statement read. If a result
    cannot have a history, as a number, the first tensor made from it gets the history. With ``is_wide``, values that
    the statement wrote into get the history as well. With ``is_around``, models do not count as read, because a
    statement that calls a model would have read all of its parameters. With ``by``, nothing is bridged: the statements
    read moved numbers. ``names`` are the tensors whose gradients are observed. With ``is_shift``, these are moved after
    the first of these statements has run. With ``is_followed``, it is observed where histories end: those of the
    targets, or of all values if there are no targets.
    """

    targets: frozenset[int]
    names: tuple[str, ...] = ()
    by: float | None = None
    is_wide: bool = False
    is_around: bool = False
    is_shift: bool = False
    is_followed: bool = False


Stop = Callable[[list[float | None]], bool]
"""Decides whether the run is over, from the losses of the backward passes so far."""


class BridgedRun:
    """The hooks of one run, and the facts that they collect."""

    def __init__(
        self,
        bridges: Bridges,
        statements: Sequence[Statement],
        plan: BridgingPlan,
        is_over: Stop,
        until: float,
        total: Callable[[Any], float | None],
        is_tensor: Callable[[Any], bool],
    ) -> None:
        self.bridges, self.statements, self.plan = bridges, statements, plan
        self.is_over, self.until, self.total, self.is_tensor = is_over, until, total, is_tensor
        self.hooks: dict[str, Any] = {BEGIN: self.begin, SEEN: self.seen, MADE: self.made}
        self.thread: int | None = get_ident()  # None after the run
        self.running: list[RunningStatement] = []
        # By the id of a value: the value, the sources that tensors computed from it should get, and whether gradients
        # were switched off.
        self.waiting: dict[int, tuple[Any, list[Any], bool]] = {}
        # As ``waiting``, but for numbers and texts. The key is a code object and the name of a variable instead of an
        # id, because equal numbers may be the same object.
        self.named: dict[tuple[Any, str], tuple[Any, list[Any]]] = {}
        self.losses: list[float | None] = []
        self.arrivals: dict[int, Arrival] = {}
        self.callers: set[int] = set()  # statements that call a target through a library
        self.carrying: dict[int, Any] = {}  # tensors by identity that carry a bridged history
        # Statements that read such a tensor, or without targets any tensor with a history, and whose value has none;
        # no targets, and none that run backward.
        self.ends: dict[int, None] = {}
        # The same for statements that only call, such as ``losses.append(loss.item())``
        self.call_ends: dict[int, None] = {}
        self.differentiating: set[int] = set()  # statements that run backward: their results are gradients
        self.count = 0  # how often a target has run
        self.resolved: dict[str, Any] = {}

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Within this context the hooks are active."""
        try:
            with self.bridges.passes(self.passed, self._watched):
                yield
        finally:
            self.thread = None

    def begin(self, number: int) -> RunningStatement:
        """Called when a statement begins."""
        one = RunningStatement(number)
        if get_ident() != self.thread:
            return one
        if time.monotonic() > self.until:
            raise Enough
        self.running.append(one)
        return one

    def seen(self, value: Any, name: str = "", is_within: bool = False) -> Any:
        """Called when the running statement reads a value. Returns the value to use.

        ``is_within`` says that the value is the result of a call inside the statement, or the owner of an attribute,
        such as ``w`` in ``w.data``.
        """
        if not self.running or get_ident() != self.thread:
            return value
        if is_within and not self.is_tensor(value) and id(value) not in self.waiting:
            return value
        one = self.running[-1]
        one.seen.append(value)
        if self.plan.is_wide and one.number in self.plan.targets:
            one.before.append(self.total(value))
        if name and type(value) in SIMPLE:
            kept = self.named.get((sys._getframe(1).f_code, name))
            if kept is not None and (kept[0] is value or kept[0] is CHANGED):
                one.left.append((kept[1], False))
        if self.plan.by is not None and not self.plan.is_shift and one.number in self.plan.targets:
            return self._moved(value, one)
        return value

    def made(self, one: RunningStatement, value: Any, *owners: Any) -> Any:
        """Called when a statement has computed a value. Returns the value to use instead."""
        if one not in self.running:
            return value  # the statement runs in another thread, or in a resumed generator
        # Statements that raised an error are still in the list if the program caught the error.
        while self.running.pop() is not one:
            pass
        is_target = one.number in self.plan.targets
        if is_target:
            self.count += 1
            self._note_caller(sys._getframe(1))
        if self.plan.by is not None and self.plan.is_shift:
            if is_target and self.count == 1:
                named = [held_at(name, sys._getframe(1), self.bridges.part) for name in self.plan.names]
                self.bridges.shift([each for each in named if each is not None], self.plan.by)
            return value
        if self.plan.by is not None:
            return self._unmoved(value, one) if one.undo else value
        sources = self._sources(one, is_target)
        self._forget_changed(one, sys._getframe(1))
        carried = self._carried(one, value, sources, owners, sys._getframe(1)) if sources else value
        if self.plan.is_followed:
            self._follow(one, carried, is_target, owners)
        return carried

    def _forget_changed(self, one: RunningStatement, frame: FrameType) -> None:
        # A plain assignment to a variable ends the sum that ``total += loss`` collected in it, with its sources.
        statement = self.statements[one.number]
        for key in () if statement.is_augmented else [(frame.f_code, name) for name in statement.names]:
            if self.named.get(key, (None,))[0] is CHANGED:
                del self.named[key]

    def _follow(self, one: RunningStatement, value: Any, is_target: bool, owners: Sequence[Any]) -> None:
        # Does a history continue through this statement, or end here?
        seen = [each for held in one.seen for each in self._of(held)]
        if self.plan.targets:
            is_carrying = is_target or any(id(each) in self.carrying for each in seen)
        else:
            is_carrying = any(map(self.bridges.connected, seen))
        if not is_carrying:
            return
        made = self._connected(value)
        if self.plan.targets:
            self.carrying.update({id(each): each for each in made})
        if made or is_target or one.number in self.differentiating:
            return
        if not self.statements[one.number].is_call:
            self.ends[one.number] = None
        elif not any(map(self.bridges.connected, (*owners, *_owners_of_called(one)))):
            self.call_ends[one.number] = None

    def _connected(self, value: Any) -> list[Any]:
        # The tensors with a history in a value. Objects of libraries, such as distributions, are opened here too.
        if found := self.bridges.connected(value):
            return found
        try:
            held = object.__getattribute__(value, "__dict__")  # runs no code of the object
        except (AttributeError, TypeError):
            return []
        return [] if isinstance(value, ModuleType | type) else self.bridges.connected(held)

    def _sources(self, one: RunningStatement, is_target: bool) -> list[Any]:
        own = [each for value in one.seen for each in self._of(value)] if is_target else []
        is_off: bool | None = None
        for sources, while_off in [*one.left, *(each for value in one.seen for each in self._waiting(value))]:
            if while_off and is_off is None:
                is_off = self.bridges.is_off()
            own += sources if is_off or not while_off else ()
        return _once(own)

    def _of(self, value: Any) -> list[Any]:
        # Return the differentiable sources in a value that a statement reads. If the value is a method, return those in
        # its object. Python modules and classes have none.
        owner = getattr(value, "__self__", None) if callable(value) else None
        if isinstance(value, ModuleType | type) or isinstance(owner, ModuleType | type):
            return []
        found = self.bridges.sources(value, of_models=not self.plan.is_around)
        return found or ([] if owner is None else self.bridges.sources(owner, of_models=not self.plan.is_around))

    def _waiting(self, value: Any) -> Iterator[tuple[list[Any], bool]]:
        if not self.waiting:
            return
        inside = children(value) if type(value) not in SIMPLE else None
        owner = getattr(value, "__self__", None) if callable(value) else None
        for each in (value, owner, *(item for _, item in (inside or ())[:MANY])):
            kept = self.waiting.get(id(each))
            if kept is not None and kept[0] is each:
                yield kept[1], kept[2]

    def _carried(
        self, one: RunningStatement, value: Any, sources: list[Any], owners: Sequence[Any], frame: FrameType
    ) -> Any:
        # Add these sources to the value's history. If the value cannot have one, or while gradients are switched off,
        # the first tensor made from it later gets the sources.
        is_off, statement = self.bridges.is_off(), self.statements[one.number]
        new = self.bridges.bridged(value, sources)
        if new is not None and not is_off:
            return new
        value = value if new is None else new
        kept = (sources if new is None else [new], new is not None)
        names = [(frame.f_code, name) for name in statement.names]
        self._keep(value, *kept, names, is_augmented=statement.is_augmented)
        if statement.is_return and self.running:
            self.running[-1].left.append(kept)
        if new is None or self.plan.is_wide:
            others = [*owners, *(_owners_of_called(one) if statement.is_call else ())]
            others += [each for each, was in zip(one.seen, one.before, strict=False) if was != self.total(each)]
            for each in others:
                if not isinstance(each, ModuleType | type):
                    self._keep(each, sources, False, ())
        return value

    def _keep(
        self,
        value: Any,
        sources: list[Any],
        while_off: bool,
        names: Collection[tuple[Any, str]],
        is_augmented: bool = False,
    ) -> None:
        for each in (value, *(item for _, item in (children(value) or ())[:MANY])):
            if type(each) not in SIMPLE or type(each) in (float, complex):
                before = self.waiting.get(id(each), (None, (), False))
                earlier = before[1] if before[0] is each else ()
                self.waiting[id(each)] = (each, _once([*earlier[:MOST_SOURCES], *sources]), while_off)
        if type(value) in SIMPLE and value is not None:
            for name in names:
                known, earlier = self.named.get(name, (None, []))
                summed = _once([*earlier[:MOST_SOURCES], *sources]) if is_augmented and known is CHANGED else sources
                self.named[name] = (CHANGED if is_augmented else value, summed)

    def _moved(self, value: Any, one: RunningStatement) -> Any:
        assert self.plan.by is not None
        owner = getattr(value, "__self__", None) if callable(value) else None
        if not self._of(value):
            return value
        if owner is None or self.bridges.sources(value):
            return self.bridges.moved(value, self.plan.by, one.undo)
        new = self.bridges.moved(owner, self.plan.by, one.undo)
        return value if new is owner else getattr(new, value.__name__)

    def _unmoved(self, value: Any, one: RunningStatement) -> Any:
        value = self.bridges.kept(value)
        while one.undo:
            one.undo.pop()()
        return value

    def _note_caller(self, frame: FrameType) -> None:
        # Store the statement through which the program reaches a target whose function a library calls.
        around = [package(each.f_code.co_filename) for each in callers(frame.f_back)]
        if self.running and around and around[0] is not None:
            self.callers.add(self.running[-1].number)

    def _watched(self, frame: FrameType) -> Sequence[Any]:
        # Return the tensors to observe in a run without bridges: those that the plan names. A run with bridges observes
        # none.
        return [] if self.plan.targets else [held_at(name, frame, self.bridges.part) for name in self.plan.names]

    def passed(self, one: BridgedPass) -> None:
        """Called after the program ran backward. Raises Enough if the run is over."""
        self.losses.append(one.loss)
        self.differentiating.update(running.number for running in self.running)
        for tensor, arrived, lacking in zip(one.sources, one.arrived, one.lacking, strict=True):
            known = self.arrivals.setdefault(id(tensor), Arrival(tensor))
            known.arrived, known.lacked = known.arrived or arrived, known.lacked and lacking
        for name in self.plan.names:
            if self.resolved.get(name) is None:
                self.resolved[name] = held_at(name, one.frame, self.bridges.part)
        if self.is_over(self.losses):
            raise Enough

    @property
    def arrived(self) -> list[Any]:
        """The tensors that got a gradient only because of the bridges."""
        return [one.tensor for one in self.arrivals.values() if one.arrived and one.lacked]

    def names_arrived(self) -> list[str]:
        """The ``names`` whose tensors got a gradient only because of the bridges."""
        return self._names(self.arrived)

    def names_given(self) -> frozenset[str]:
        """The ``names`` whose tensors got any gradient."""
        return frozenset(self._names([one.tensor for one in self.arrivals.values() if one.arrived]))

    def _names(self, tensors: Sequence[Any]) -> list[str]:
        return [name for name, held in self.resolved.items() if any(is_same(one, held) for one in tensors)]


def _once(sources: Sequence[Any]) -> list[Any]:
    # Return each source once, because each costs a bridge.
    return [*{id(one): one for one in sources}.values()]


def _owners_of_called(one: RunningStatement) -> list[Any]:
    # The object whose method the statement calls: the list in ``losses.append(loss)``.
    return [getattr(each, "__self__", None) for each in one.seen if callable(each)][:1]


def is_same(one: Any, other: Any) -> bool:
    """Are two values the same tensor, or is one a library's Variable that wraps the other?"""
    return (
        one is other
        or (other is not None and getattr(other, "_value", None) is one)
        or (getattr(one, "_value", None) is other and other is not None)
    )


def held_at(name: str, frame: FrameType | None, part: Callable[[Any, str], Any]) -> Any:
    """The value of a dotted name, such as ``net.layers.0.weight``, as seen from a frame; None if not known."""
    first, *steps = name.split(".")
    for one in callers(frame):
        for variables in (one.f_locals, one.f_globals):
            if first in variables:
                found = _reached(variables[first], steps, part)
                if found is not None:
                    return found
    return None


def _reached(value: Any, steps: Sequence[str], part: Callable[[Any, str], Any]) -> Any:
    for step in steps:
        inside = dict(children(value) or ())
        value = inside[step] if step in inside else part(value, step)
        if value is None:
            return None
    return value


@contextmanager
def writing_refused(writers: Sequence[tuple[Any, str]]) -> Iterator[None]:
    """Within this context the ``writers``, which write files without Python's ``open``, raise its audit event."""

    def refusing(name: str, following: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not (args and isinstance(args[0], io.IOBase)):  # writing to memory is harmless
            sys.audit("open", f"a file by {name}", "w", 0)
        return following(*args, **kwargs)

    def wrap(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return lambda following: partial(refusing, name, following)

    with patched([(owner, name, wrap(name)) for owner, name in writers]):
        yield
