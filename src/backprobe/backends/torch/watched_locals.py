"""Watched local variables of forwards, and the forwards that report their locals in measured steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from torch.nn import Module

from backprobe.backends.torch.binding_forwards import BindingForward, Bound, Hearer, definition, hear, ignore
from backprobe.backends.torch.models import is_compiled, is_compiled_module
from backprobe.backends.torch.structure import structure
from backprobe.backends.torch.watched_selection import bare
from backprobe.backends.watched_names import WatchedSelection
from backprobe.errors import NoSource, Unsupported
from backprobe.record.names import quote_path

NO_FORWARD = Module.forward
Take = Callable[["WatchedForward", str, Any, Bound], None]
"""The function that is called when a local of a forward is bound to a value."""


@dataclass(eq=False)
class WatchedForward:
    """A forward with watched locals."""

    module: Module
    path: str
    forward: BindingForward
    hearer: Hearer
    names: list[str]
    """The selected locals of the forward."""

    places: dict[str, Any] = field(default_factory=dict)
    """The places of rows, by ``:local`` followed by the path of a tensor in the local's value."""

    bound: set[str] = field(default_factory=set)
    """The locals that have been bound in measured calls."""

    is_heard: bool = False


class WatchedLocals:
    """The forwards of one model whose locals are selected. It belongs to the thread that watches the model."""

    def __init__(self, selection: WatchedSelection, take: Take) -> None:
        self.selection, self.take = selection, take
        self.forwards: dict[Module, WatchedForward] = {}
        self.aliases: dict[str, str] = {}
        self.unread: dict[str, str] = {}  # by the path of a module whose source cannot be read: the reason
        self.compiled: set[int] = set()  # ids of modules that have run in compiled code
        self.made: dict[Module, BindingForward | None] = {}

    def look(self, parts: Sequence[tuple[str, Module]]) -> Mapping[str, str]:
        """Walk the modules of a model to find new ones. If a module has several paths, its locals have several names.
        Returns these further names, with the first name of each.
        """
        for path, module in parts:
            known = self.forwards.get(module)
            if (known is not None and known.path == path) or not self.selection.wants_locals(path):
                continue
            forward = self._forward(path, module)
            names = [] if forward is None else self.selection.locals_in(path, _locals(forward))
            if known is not None:
                for name in names:
                    self.aliases[_named(path, name)] = _named(known.path, name)
            elif forward is not None and names:
                self.forwards[module] = self._watched(path, module, forward, names)
        for gone in self.forwards.keys() - {module for _, module in parts}:
            self._ignore(self.forwards.pop(gone))
            self.made.pop(gone, None)
        return self.aliases

    def _watched(self, path: str, module: Module, forward: BindingForward, names: list[str]) -> WatchedForward:
        wanted = set(names)
        hearer = Hearer(wanted.__contains__, lambda local, value, held: self.take(watched, local, value, held))
        watched = WatchedForward(module, path, forward, hearer, names)
        return watched

    def _forward(self, path: str, module: Module) -> BindingForward | None:
        if module not in self.made:
            self.made[module] = None
            if getattr(type(module), "forward", NO_FORWARD) is not NO_FORWARD or "forward" in vars(module):
                try:
                    self.made[module] = BindingForward(module, self.selection.asks_operations)
                except NoSource as error:
                    self.unread[path] = error.headline
        return self.made[module]

    def every_name(self, parts: Sequence[tuple[str, Module]]) -> list[str]:
        """Return the names of all locals that the forwards of a model bind, selected or not."""
        found = ((path, self._forward(path, module)) for path, module in parts)
        return [_named(path, one) for path, forward in found if forward is not None for one in _locals(forward)]

    def refuse_compiled(self, model: Module, asked: str) -> None:
        """Raise Unsupported if selected locals are in a part that is compiled."""
        parts = structure(model).parts
        compiled = [
            bare(path) for path, part in parts if is_compiled_module(part) or is_compiled(vars(part).get("forward"))
        ]
        for one in self.forwards.values():
            around = [path for path in compiled if not path or one.path == path or one.path.startswith(f"{path}.")]
            if around:
                self._refuse(one, asked, f"{around[-1]!r} is compiled" if around[-1] else "the model is compiled")

    def refuse_seen(self, asked: str) -> None:
        """Raise Unsupported if selected locals are in a module that has run in compiled code since the watch
        started.
        """
        for one in self.forwards.values():
            if id(one.module) in self.compiled:
                self._refuse(one, asked, f"{one.path or 'the model'!r} has run in a function that is compiled")

    def _refuse(self, one: WatchedForward, asked: str, found: str) -> None:
        name = _named(one.path, one.names[0])
        raise Unsupported(
            "local variables of a compiled forward cannot be watched",
            asked=asked,
            found=f"{name!r}: {found}",
            why="what is compiled is the forward as it was written, which reports none of its locals",
            next="select= without them, for what modules return; or watch the model without torch.compile",
        )

    # Methods for use during a training.

    def wake(self) -> None:
        """A measured step starts: make the forwards report their locals."""
        for one in self.forwards.values():
            one.hearer.entered = False
            if not one.is_heard:
                self._renew(one)
                one.is_heard = True
                hear(one.forward, one.hearer)

    def _renew(self, one: WatchedForward) -> None:
        # Create the reporting forward again if the program has assigned another forward to the module or its class.
        if one.forward.made_from != definition(one.module):
            with suppress(NoSource):
                one.forward = self.made[one.module] = BindingForward(one.module, self.selection.asks_operations)

    def rest(self) -> None:
        """Stop the forwards from reporting until ``wake`` is called."""
        for one in self.forwards.values():
            self._ignore(one)

    def _ignore(self, one: WatchedForward) -> None:
        if one.is_heard:
            one.is_heard = False
            ignore(one.forward, one.hearer)

    def never_bound(self) -> Iterator[tuple[WatchedForward, str]]:
        """Yield the selected locals that no measured call has bound so far, with their forwards."""
        for one in self.forwards.values():
            for name in one.names:
                if name not in one.bound:
                    yield one, _named(one.path, name)


def _locals(forward: BindingForward) -> list[str]:
    # Return the locals that a forward binds. The return value is left out, because a module hook measures it.
    return [one for one in dict.fromkeys(site.local for site in forward.sites) if one not in ("", "return", "self")]


def _named(path: str, local: str) -> str:
    return f"{quote_path(path)}:{local}"
