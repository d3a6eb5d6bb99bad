"""What a statement of recorded code mentions: live names, what it has called so far, the parameters of its module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backprobe.backends.facts import Around
from backprobe.record.names import partition
from backprobe.source.sites import Site
from backprobe.tracing.provenance import Carrying
from backprobe.tracing.scope import Scope, Slot, Value

NO_SITE = Site("", 0, "")
RETURNED = Site("return", 0, "")
"""Of what the model that was probed returns: no statement is known, as of what its modules return."""


@dataclass(frozen=True)
class Mentioned:
    """What an expression of a scope can mention: live names, and what the running statement has called so far."""

    slots: Mapping[str, Slot] = field(default_factory=dict)
    returned: Sequence[tuple[str, Slot]] = ()
    calls: tuple[str, ...] = ()
    carried: Carrying = field(default_factory=dict)

    @classmethod
    def of(cls, scope: Scope) -> Mentioned:
        return cls(scope.slots, tuple(scope.returned), tuple(scope.calls), dict(scope.carried))


class Parameters:
    """The captured parameters of a model, by the modules that they lie in."""

    def __init__(self) -> None:
        self.named: list[tuple[str, Any]] = []
        self.slots: dict[str, Slot] = {}  # by path
        self.placed = 0  # how many of them are sorted by module, which is done when it is asked
        self.by_module: dict[str, list[Any]] = {}

    def add(self, path: str, value: Value) -> None:
        self.named.append((path, value.capture))
        self.slots[path] = (("", value),)

    def of(self, scope: Scope, name: str) -> Slot:
        """What ``self.weight`` is in the code of a module; nothing where that is no parameter."""
        owner, _, attribute = name.partition(".")
        module = scope.stripped.partition("/")[0]
        return self.slots.get(f"{module}.{attribute}" if module else attribute, ()) if owner == "self" else ()

    def inside(self, module: str) -> Sequence[Any]:
        for path, capture in self.named[self.placed :]:
            segments = partition(path, ".")
            for length in range(len(segments)):  # the model itself is ""
                self.by_module.setdefault(".".join(segments[:length]), []).append(capture)
        self.placed = len(self.named)
        return self.by_module.get(module, ())


def mentions(scope: Scope, site: Site) -> Around:
    """What a statement mentions: the captures, and whether a value that was not selected is differentiated.

    Of what a module returns no statement is known, but its parameters are.
    """
    if site is RETURNED or (site is NO_SITE and scope.path and scope.parent is None):
        return scope.trace.parameters.inside(scope.stripped), False
    held = [scope.slots.get(name) or scope.trace.parameters.of(scope, name) for name in site.reads]
    reads = [value.capture for slot in held for _, value in slot if value.capture]
    return reads, any(scope.passed_over.get(name) for name in site.reads if name not in scope.slots)
