"""Forwards that report their bindings to listeners. All listeners of one module in one thread share one such
forward.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import BuiltinFunctionType
from typing import Any

from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.nn import Module

from backprobe.backends.dispatching import dispatch, owner_of, put_back
from backprobe.backends.patching import Patched, original, replaced
from backprobe.source import frame_builtins
from backprobe.source.listener import NO_CALL, CodeListener
from backprobe.source.reporting import reporting
from backprobe.source.sites import Site

Bound = dict[str, tuple[weakref.ref[Tensor], int]]
"""The names that one call of a forward has bound. Each name is mapped to its tensor and the tensor's version."""


class Hearer:
    """A listener of a forward: the locals that it wants, and the function to call when one of them is bound."""

    def __init__(self, wants: Callable[[str], bool], bound: Callable[[str, Any, Bound], None]) -> None:
        self.wants, self.bound = wants, bound
        self.entered = False
        self.known: tuple[Sequence[Site], list[str | None]] = ((), [])

    def locals_of(self, sites: Sequence[Site]) -> list[str | None]:
        """Return the locals of a forward's sites that the listener wants, with None for other sites."""
        if self.known[0] is not sites:
            self.known = sites, [site.local if self.wants(site.local) else None for site in sites]
        return self.known[1]


class ForwardEntry(CodeListener):
    """One call of a forward, and the listeners to which it reports."""

    def __init__(self, sites: Sequence[Site], hearers: Sequence[Hearer]) -> None:
        self.sites = sites
        self.heard: list[tuple[Hearer, list[str | None], Bound]] = [(one, one.locals_of(sites), {}) for one in hearers]
        for one in hearers:
            one.entered = True

    def bind(self, at: int, value: Any) -> Any:
        for hearer, wanted, held in self.heard:
            local = wanted[at]
            if local is not None:
                hearer.bound(local, value, held)
        return value

    name = wrote = bind

    def storing(self, at: int, owner: Any, value: Any) -> Any:
        """Report a binding, unless the owner of the assigned item or attribute is a tensor: that is a write, not a
        binding.
        """
        return value if issubclass(type(owner), Tensor) else self.bind(at, value)

    def each(self, template: Any, values: Any) -> Iterator[Any]:
        for value in values:
            self._bind_template(template, value)
            yield value

    def _bind_template(self, template: Any, value: Any) -> None:
        if isinstance(template, int):
            self.bind(template, value)
        elif isinstance(template, tuple) and isinstance(value, tuple | list) and len(template) == len(value):
            for inner, item in zip(template, value, strict=True):
                self._bind_template(inner, item)

    def forget(self, *names: str) -> None:
        for _, _, held in self.heard:
            for name in names:
                held.pop(name, None)

    def call(self, function: Any, may_write: bool = False, at: int = NO_CALL, /) -> Any:
        if type(function) is BuiltinFunctionType and function in frame_builtins.LOOKS_AT_FRAME:
            return frame_builtins.seen_by(function)
        return function


class BindingForward:
    """The reporting forward of one module, and its current listeners."""

    def __init__(self, module: Module, operations: bool) -> None:
        """With ``operations``, operations without a name are reported too. Raises NoSource if there is no source."""
        self.module, self.operations, self.made_from = module, operations, definition(module)
        self.sites: Sequence[Site] = ()
        self.hearers: list[Hearer] = []
        self.function = reporting(original(module, "forward"), self._opener, operations=operations)
        self.thread = threading.get_ident()
        self.owner = owner_of(module, "forward")
        self.standing: AbstractContextManager[None] | None = None

    def _opener(self, name: str, file: str, sites: tuple[Site, ...]) -> Callable[[], ForwardEntry]:
        self.sites = sites
        return lambda: ForwardEntry(sites, self.hearers)

    def install(self) -> None:
        """Make this thread's calls of the module run this forward."""
        if self.owner is not None:
            dispatch(self.module, "forward", self.owner, self.function, is_dynamo_compiling)
        else:  # the forward is an attribute of the module itself
            self.standing = replaced([(self.module, "forward", self.function)], is_dynamo_compiling)
            self.standing.__enter__()

    def remove(self) -> None:
        if self.owner is not None:
            put_back(self.module, "forward", self.owner, self.thread)
        elif self.standing is not None:
            self.standing.__exit__(None, None, None)
            self.standing = None


STANDING: dict[tuple[int, int], BindingForward] = {}
"""The installed forwards, by thread and module."""


def hear(forward: BindingForward, hearer: Hearer) -> BindingForward:
    """Add a listener to a module. Returns the installed forward, which may be an earlier one."""
    key = forward.thread, id(forward.module)
    there = STANDING.get(key)
    # the installed forward does not report operations: the new one, which does, takes over its listeners
    if there is not None and forward.operations and not there.operations:
        there.remove()
        forward.hearers, there.hearers = there.hearers, []
        del STANDING[key]
        there = None
    if there is None:
        there = STANDING[key] = forward
        there.install()
    there.hearers = [*there.hearers, hearer]
    return there


def ignore(forward: BindingForward, hearer: Hearer) -> None:
    """Remove a listener. The last removal also removes the forward."""
    key = forward.thread, id(forward.module)
    there = STANDING.get(key)
    if there is None:
        return
    there.hearers = [one for one in there.hearers if one is not hearer]
    if not there.hearers:
        there.remove()
        del STANDING[key]


def definition(module: Module) -> tuple[Any, ...]:
    """Return the definition of a module's forward. If it changes, the reporting forward must be created again."""
    found = vars(module).get("forward")
    found = found.original if isinstance(found, Patched) else found
    plain = getattr(original(module, "forward") if found is None else found, "__func__", found)
    return found, plain, getattr(plain, "__code__", None)
