"""The oracle's names: which object at which version every binding of a local means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from random_programs.memory import Tensor

Held = tuple[str, Any, int | None]
"""A tensor or number that a local holds: where in it (``.0`` in a list), the object, and its moment when named."""


@dataclass(frozen=True)
class Binding:
    """What the oracle says of one full name: which object at which version (None for a number), and the value."""

    name: str
    moment: int | None
    value: Any


@dataclass(eq=False)
class Scope:
    """One entry of a function."""

    path: str
    outer: Scope | None = None
    values: dict[str, Any] = field(default_factory=dict)
    named: dict[str, list[Held]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    entered: Counter[str] = field(default_factory=Counter)

    def find(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        assert self.outer is not None, name
        return self.outer.find(name)


class Names:
    def __init__(self) -> None:
        self.active: list[Scope] = []
        self.bindings: list[Binding] = []

    def bind(self, scope: Scope, local: str, value: Any) -> None:
        """A name gets a value: a new binding unless the name means that object, at that version, already."""
        self.settle()
        held = list(_held(value))
        if held != scope.named.get(local) or isinstance(value, int):
            scope.named[local] = held
            self._note(scope, local, held)

    def settle(self) -> None:
        """After a write every name that is live, in every active scope, means the new version of its object."""
        for scope in self.active:
            for local, held in scope.named.items():
                now = [(leaf, item, _moment(item)) for leaf, item, _ in held]
                if now != held:
                    scope.named[local] = now
                    self._note(scope, local, [new for new, old in zip(now, held, strict=True) if new != old])

    def _note(self, scope: Scope, local: str, held: list[Held]) -> None:
        for leaf, item, moment in held:
            name = f"{scope.path}:{local}#{scope.counts[local]}{leaf}"
            if isinstance(item, Tensor):
                item = item.value[0, 0] if item.is_scalar else item.value[0]
            self.bindings.append(Binding(name, moment, item))
        scope.counts[local] += bool(held)


def _held(value: Any) -> Iterator[Held]:
    """What of a value has a name: a tensor, a number, or the tensors in a list."""
    if isinstance(value, Tensor | int):
        yield "", value, _moment(value)
    elif isinstance(value, list | tuple):
        yield from ((f".{at}", item, _moment(item)) for at, item in enumerate(value) if item is not None)


def _moment(item: Any) -> int | None:
    return item.moment if isinstance(item, Tensor) else None
