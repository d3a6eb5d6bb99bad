"""Translates bound values into codes, by which the log describes them. A selected tensor is captured at that time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from backprobe.backends.protocol import Tape
from backprobe.record.brief import kind as described
from backprobe.record.containers import (
    SIMPLE,
    TEXTS,
    by_key,
    direct,
    flat_leaves,
    holds,
    is_container,
    leaves,
)
from backprobe.record.held import Lost
from backprobe.record.reasons import Reason
from backprobe.source.followed_calls import LOCALS
from backprobe.tracing.contents import MAPPINGS, Contents
from backprobe.tracing.log import (
    CARRIED,
    DIFFERENTIATED,
    FILLED,
    NO_SITE_AT,
    PASSED_OVER,
    PLAIN,
    SAME_PLAIN,
    Code,
    ScopeKind,
)
from backprobe.tracing.provenance import FILLED as CONTAINERS
from backprobe.tracing.scope import Scope
from backprobe.tracing.versions import By, Versions

NUMBERS = (bool, int, float, complex, type(None))
MOST_TYPES = 4096
UNHEARD = nullcontext()


class Codes(Contents):
    """Makes the codes that describe bound values in the log of a trace. Plain numbers are stored in a separate list."""

    def __init__(self, tape: Tape, versions: Versions, plain: list[Any], bare: set[type], events: list[Any]) -> None:
        self.tape, self.versions, self.plain, self.bare = tape, versions, plain, bare
        self.ordinary, self.disturbed = tape.ordinary, tape.disturbed
        self.usual = tape.ordinary | SIMPLE
        self.events = events
        self.inside: dict[int, list[int]] = {}
        self.holders: dict[int, dict[tuple[int, str], None]] = {}
        # by module: the selected leaves that its forward returned, if plain numbers are among them
        self.mixed: dict[str, Sequence[tuple[str, Any]]] = {}

    def of(self, scope: Scope, local: str, at: int, value: Any, own: str = "") -> Code:
        """Return the code of the value that a local is bound to. Its selected tensors are captured. If there are any,
        the local becomes a live name.
        """
        kind = type(value)
        if kind in self.ordinary and not self.disturbed():
            if scope.kind.wanted[local]:
                return self.versions.bound(value, scope, at, local + own)
            return DIFFERENTIATED if self.tape.is_differentiated(value) else PASSED_OVER
        if scope.live and local + own in scope.live:
            self.versions.forget(scope, local + own)
        if kind in self.bare:
            return CARRIED
        if issubclass(kind, NUMBERS):  # ``isinstance`` may run code of the object
            if not scope.kind.wanted[local]:
                return PASSED_OVER
            self.plain.append(value)
            return PLAIN
        if not self.tape.is_tensor(value):
            return self._of_container(scope, local, at, value, own)
        with self.tape.quiet():
            if scope.kind.wanted[local]:
                return self.versions.bound(value, scope, at, local + own)
            return DIFFERENTIATED if self.tape.is_differentiated(value) else PASSED_OVER

    def _of_container(self, scope: Scope, local: str, at: int, value: Any, own: str) -> Code:
        found, wanted = self._leaves(value), scope.kind.wanted
        chosen = [(leaf, item) for leaf, item in found if wanted[local + leaf]]
        if not chosen:
            return self._unselected(value, found)
        same = _same(chosen, scope.mixed.get(local + own, ()))
        with self._quiet(chosen):
            code = self._codes(chosen, scope, at, same)
            numbers = [number for _, number in code if number >= 0]
            self.versions.all_live(scope, local + own, numbers)
        if len(numbers) < len(code):
            scope.mixed = {**scope.mixed, local + own: chosen}
        key, kind = local + own, type(value)
        if key in scope.held:
            self.let_go(scope, key)
        if numbers and (kind is list or kind in MAPPINGS):  # inline, because this runs for each container
            if not scope.held:
                scope.held = {}
            scope.held[key] = value
            items = [*value] if kind is list else [*value.values()]
            is_flat = MAPPINGS.isdisjoint(kinds := {*map(type, items)}) and list not in kinds
            self.inside[id(value)] = [*map(id, items)] if is_flat else self.deeply(value)
            self.holders.setdefault(id(value), {})[scope.number, key] = None
        return code

    def _codes(
        self, chosen: Sequence[tuple[str, Any]], by: By, at: int, same: set[str] | frozenset[str] = frozenset()
    ) -> tuple[tuple[str, int], ...]:
        # Return the codes of the leaves of a container. ``same`` contains the leaves that the name held before as the
        # same objects.
        codes = []
        for leaf, item in chosen:
            if isinstance(item, NUMBERS):
                self.plain.append(item)
                codes.append((leaf, SAME_PLAIN if leaf in same else PLAIN))
            else:
                codes.append((leaf, self.versions.number(item, by, at)))
        return tuple(codes)

    def _unselected(self, value: Any, found: Sequence[tuple[str, Any]]) -> int:
        if not found:
            return FILLED if type(value) in CONTAINERS else CARRIED
        with self.tape.quiet():
            return DIFFERENTIATED if any(self.tape.is_differentiated(item) for _, item in found) else PASSED_OVER

    def _quiet(self, chosen: Sequence[tuple[str, Any]]) -> AbstractContextManager[Any]:
        # Return ``Tape.quiet``, or a context that does nothing if no mode could observe operations on these leaves.
        is_plain = not self.disturbed() and {type(item) for _, item in chosen} <= self.usual
        return UNHEARD if is_plain else self.tape.quiet()

    def _leaves(self, value: Any) -> Sequence[tuple[str, Any]]:
        # Return the tensors and plain numbers in a container, or nothing if the container holds no tensor.
        is_tensor, ordinary = self.tape.is_tensor, self.ordinary
        kind = type(value)
        if kind in self.bare:
            return ()
        inside = direct(value)
        if inside is not None and (kinds := {*map(type, inside)}) <= self.usual:  # there are no nested containers
            if kinds <= SIMPLE:  # often true, because programs bind shapes
                return ()
            found = flat_leaves(value)
            return [(leaf, item) for leaf, item in found if type(item) not in TEXTS] if kinds & TEXTS else found
        if inside is None and self.tape.opened is not None:
            value = self.tape.opened(value)
        if not holds(value, is_tensor):
            is_known = not (type(value) is not kind or is_container(kind) or issubclass(kind, self.tape.partly_tensors))
            is_known = is_known and not issubclass(kind, NUMBERS)  # numbers have their own entries
            if is_known and LOCALS not in kind.__qualname__ and len(self.bare) < MOST_TYPES:
                self.bare.add(kind)
            return ()
        return [
            (leaf, item)
            for leaf, item in leaves(value)
            if type(item) in ordinary or isinstance(item, NUMBERS) or is_tensor(item)
        ]

    def leaves_or_itself(self, value: Any) -> Sequence[tuple[str, Any]]:
        """Return the leaves of a container that holds a tensor. A tensor has a single leaf: the tensor itself. Any
        other value has none.
        """
        if self.tape.is_tensor(value):
            self.bare.discard(type(value))  # the type was wrongly registered as one without tensors
            return (("", value),)
        return self._leaves(value)

    def returned(self, kind: ScopeKind, output: Any) -> Code:
        """Return the code of a module's return value."""
        wanted = kind.wanted
        if isinstance(output, NUMBERS):
            if not wanted["return"]:
                return PASSED_OVER
            self.plain.append(output)
            return PLAIN
        found = self.leaves_or_itself(output) or self._leaves(opened := by_key(output))
        chosen = [(leaf, item) for leaf, item in found if wanted["return" + leaf]]
        if not chosen:
            if found or not wanted["return"] or is_container(type(opened)):
                return self._unselected(output, found)
            code = "not_tensor" if type(output) in TEXTS else "not_opened"
            self.plain.append(Lost(Reason(code, {"kind": described(output)})))
            return PLAIN
        same = _same(chosen, self.mixed.pop(kind.path, ()))
        with self._quiet(chosen):
            codes = self._codes(chosen, kind, NO_SITE_AT, same)
        return codes if found[0][0] else codes[0][1]


def _same(chosen: Sequence[tuple[str, Any]], held: Sequence[tuple[str, Any]]) -> set[str]:
    # Return the names of the leaves that a container shares with the objects that the name held before.
    return {leaf for (leaf, one), (before, other) in zip(chosen, held, strict=False) if leaf == before and one is other}
