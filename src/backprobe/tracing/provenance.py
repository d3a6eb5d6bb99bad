"""What recorded values pass on through names that hold no tensor: NumPy arrays, lists that are filled, texts.

A tensor that is computed from such a name leads back to nothing, though it was computed from what that name was. Only
names are followed, within a function and out of it by what it returns.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from backprobe.record.reasons import Note
from backprobe.source.sites import Site

if TYPE_CHECKING:
    from backprobe.tracing.scope import Scope, Value

FILLED = (list, dict, set, deque, defaultdict)
FILLING = ("append", "appendleft", "extend", "insert", "add", "update", "setdefault", "put", "push")
"""Methods by which a program puts something into a container that was made out of sight."""
MOST = 64  # values that one name passes on: a list that is filled in a long loop is not looked into to its end


@dataclass(frozen=True, eq=False, slots=True)
class Carried:
    """One value that a name passes on, and where it was last seen as a value, under which name."""

    spelled: str
    value: Value
    scope: Scope
    site: Site


class Around(Protocol):
    """Where an expression stands: the values that have names there, and what the other names pass on."""

    @property
    def slots(self) -> Mapping[str, Any]: ...
    @property
    def carried(self) -> Carrying: ...


Carrying = dict[str, tuple[Carried, ...]]
"""By local what each name that holds no tensor passes on."""


def carry(scope: Scope, local: str, value: Any, site: Site) -> None:
    """A statement has bound a local to something that holds no tensor."""
    found = _mentioned(scope, site)
    if found or type(value) in FILLED:
        scope.carried[local] = found
    else:
        scope.carried.pop(local, None)


def fill(scope: Scope, site: Site) -> None:
    """A statement that binds nothing may have put what it mentions into one of the containers that it mentions."""
    filled = [*_filled(site.reads), *(name for name in site.reads if name in scope.carried)]
    for name in dict.fromkeys(filled):
        if name not in scope.slots and not scope.passed_over.get(name):
            before = scope.carried.get(name, ())
            if len(before) == MOST:
                scope.trace.notes[Note("passes_on_many", {"name": repr(name), "most": str(MOST)})] = None
            else:
                scope.carried[name] = _distinct([*before, *_mentioned(scope, site, but=name)])


@lru_cache(4096)
def _filled(reads: Sequence[str]) -> tuple[str, ...]:
    """The names that a statement puts something into by one of their methods."""
    return tuple(name for name in reads if any(f"{name}.{method}" in reads for method in FILLING))


def hand_over(scope: Scope) -> None:
    """A called function is over: what it returns without a tensor is mentioned by the statement that called it."""
    returned = scope.carried.pop("return", ())
    if returned and scope.parent is not None:
        scope.parent.carried[f"{scope.path[1:]}()"] = returned
    scope.carried.clear()


def through(scope: Around, reads: Sequence[str]) -> list[tuple[str, Carried]]:
    """What flows into an expression that mentions these names, beside the values that have one of them."""
    called = [name for name in scope.carried if name.endswith("()")]
    names = [name for name in reads if name in scope.carried and name not in scope.slots]
    found = [(name, one) for name in (*names, *called) for one in scope.carried[name]]
    for name in called:
        del scope.carried[name]
    return found


def written(scope: Scope, site: Site, local: str, before: Value) -> list[tuple[str, Carried]]:
    """What a statement that writes in place mentions, which may be what it writes, and what it writes to."""
    held = [
        (local, Carried(name + leaf, value, scope, site))
        for name in site.reads for leaf, value in scope.slots.get(name, ()) if value is not before
    ]  # fmt: skip
    names = [name + leaf for name in site.reads for leaf, value in scope.slots.get(name, ()) if value is before]
    spelled = local if local in site.reads else next(iter(names), local)
    return [(local, Carried(spelled, before, scope, site)), *held, *through(scope, site.reads)]


def given(scope: Scope, site: Site, result: Value) -> list[tuple[str, Carried]]:
    """What a statement mentions that binds the result of a function or module: it may cut what it gives to that."""
    named = [(name, scope.slots[name]) for name in site.reads if name in scope.slots]
    return [
        (name + leaf, Carried(name + leaf, value, scope, site))
        for name, held in [*named, *scope.returned] for leaf, value in held if value is not result
    ]  # fmt: skip


def _mentioned(scope: Scope, site: Site, but: str = "") -> tuple[Carried, ...]:
    carried = [one for name, one in through(scope, site.reads) if name != but]
    known = {id(one.value) for one in carried}  # a function that was called has said more of them
    held = [
        Carried(name + leaf, value, scope, site)
        for name in site.reads if name != but for leaf, value in scope.slots.get(name, ()) if id(value) not in known
    ]  # fmt: skip
    return _distinct([*carried, *held])


def _distinct(carried: Sequence[Carried]) -> tuple[Carried, ...]:
    found = {(id(one.value), id(one.site)): one for one in carried}
    return tuple(list(found.values())[:MOST])
