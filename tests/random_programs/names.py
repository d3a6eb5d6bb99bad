"""The oracle's names: which object at which version every binding of a local means."""

from collections import ChainMap, Counter
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
    """One entry of a function: the values of its locals and of what is around it, and what its names mean."""

    path: str
    values: ChainMap[str, Any]
    named: dict[str, list[Held]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    entered: Counter[str] = field(default_factory=Counter)


class Names:
    """Every binding of a run, as a name gets a value and as what it holds is written."""

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
                now = [(leaf, item, getattr(item, "moment", None)) for leaf, item, _ in held]
                self._note(scope, local, [each for each in now if each not in held])
                scope.named[local] = now

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
        yield "", value, getattr(value, "moment", None)
    elif isinstance(value, list | tuple):
        yield from (
            (f".{at}", item, getattr(item, "moment", None)) for at, item in enumerate(value) if item is not None
        )
