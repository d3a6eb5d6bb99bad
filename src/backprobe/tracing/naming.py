"""Gives values their names, from the statements of a log, and notes which values a statement mentions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from backprobe.record.entries import GradStatus
from backprobe.record.names import partition, quote
from backprobe.record.reasons import Note, Reason
from backprobe.source.sites import Site
from backprobe.tracing.log import CARRIED, DIFFERENTIATED, FILLED, PASSED_OVER, PLAIN, SAME_PLAIN, Code
from backprobe.tracing.provenance import (
    MOST,
    Parameters,
    carry,
    explain,
    explain_returned,
    explain_written,
    fill,
    mentions,
    put_in,
)
from backprobe.tracing.replacing import Marks
from backprobe.tracing.values import NO_SITE, OF_FORWARD, OWN, RETURNED, ScopeId, ScopeNames, Slot, Value

Leaves = Sequence[tuple[str, int]]
"""The codes of values that were bound together, by leaf."""


class Naming:
    """Names each value that a program binds, and notes which values the binding statement mentions."""

    def __init__(self, previous: Mapping[int, int], decide: Callable[[Value], None], *, operations: bool) -> None:
        self.previous, self.decide = previous, decide
        self.made: list[Value] = []  # all values, in the order in which they got their first name
        self.by_number: dict[int, Value] = {}
        self.parameters = Parameters()
        self.notes: dict[Note, None] = {}
        self.operations = operations  # do operations have names too?
        self.seen: dict[str, None] = {}  # names of the program that were not selected
        self.renewed: set[Value] = set()  # values with a new version from the statement that is being read
        self.plains = 0  # how many plain numbers were read so far
        self.latest: Slot = ()  # the last bound values

    def value(self, number: int, names: ScopeNames, site: Site, previous: Value | None = None) -> Value:
        """The value of a captured tensor. It is made when the tensor's number is first read."""
        known = self.by_number.get(number)
        if known is None:
            before = self.previous.get(number)
            if previous is None and before is not None:
                previous = self.by_number.get(before)
            known = self.by_number[number] = Value(number, names.id, site, previous=previous)
            self.made.append(known)
            known.around = mentions(self.parameters, names, site)
            self.decide(known)
        return known

    # Methods for the values that a statement binds.

    def bind(self, names: ScopeNames, local: str, code: Code, site: Site, own: str = "") -> None:
        """A local is bound to the value of a code."""
        if isinstance(code, tuple):
            self._bound(names, local, code, site, own)
        elif code >= 0:
            self._bound(names, local, (("", code),), site, own)
        elif code == PLAIN:
            slot = self.latest = (("", self._plain(names, site)),)
            self._explain(slot, names, site)
            names.bind(local, own, slot)
        elif code in (PASSED_OVER, DIFFERENTIATED):
            if self.operations or not local.endswith("()"):
                self.seen[f"{names.id.stripped}:{local}"] = None
            names.slots.pop(local + own, None)
            names.items.pop(local + own, None)
            names.passed_over[local] = code == DIFFERENTIATED
        else:
            assert code in (CARRIED, FILLED)
            carry(names, local, code == FILLED, site)  # the statement may mention the name's previous value
            names.slots.pop(local + own, None)
            names.items.pop(local + own, None)
            names.passed_over[local] = False

    def _bound(self, names: ScopeNames, local: str, found: Leaves, site: Site, own: str) -> None:
        held = names.slots.get(local + own)
        if held and len(held) == len(found) and all(map(_is_same, held, found)):
            self.plains += sum(code < 0 for _, code in found)
            self._explain(held, names, site)
            return  # the name holds this object already: it keeps its count
        slot = self.latest = tuple(
            [(leaf, self.value(code, names, site) if code >= 0 else self._plain(names, site)) for leaf, code in found]
        )
        self._explain(slot, names, site)
        names.bind(local, own, slot)

    def _plain(self, names: ScopeNames, site: Site) -> Value:
        # Each binding of a number or None makes a new value.
        value = Value(None, names.id, site, plain_at=self.plains)
        self.plains += 1
        self.made.append(value)
        return value

    def _explain(self, slot: Slot, names: ScopeNames, site: Site) -> None:
        # For each value that this statement made, note the expression and the values it mentions, at the versions
        # before the statement.
        if site is not NO_SITE and site is not RETURNED:
            for leaf, value in slot:
                if value.scope is not names.id and _came_to_a_callee(value, names.id):
                    value.scope, value.site = names.id, site  # this statement made the value
                if value.site is site and value.scope is names.id and not value.is_explained:
                    value.is_explained = True
                    origin = site.origin.at(leaf) if leaf else site.origin
                    explain(value, origin, names, self.parameters, self.renewed)
                elif (
                    value.scope is not names.id
                    and names.returned
                    and any(value is one for _, held in names.returned for _, one in held)
                ):
                    explain_returned(value, names, site)
        if self.renewed:
            self.renewed.clear()

    def replaced(self, marks: Marks) -> None:
        """The last bound values are replacements, or have a replaced gradient."""
        held = dict(self.latest)
        for leaf, original_at, is_gradient in marks:
            held[leaf].original_at, held[leaf].replaced_grad = original_at, is_gradient

    # Methods for the other effects of a statement.

    def changed(self, names: ScopeNames, key: str, found: Leaves, by: ScopeNames, site: Site) -> None:
        """A statement of the scope ``by`` has changed the contents of the container that a name holds.

        This gives no name to the contents. A new item that was not captured before counts as computed from the values
        that the statement mentions.
        """
        held = names.slots.get(key)
        if held is None or any(not leaf for leaf, _ in held):
            return
        known = tuple((leaf, self.by_number[number]) for leaf, number in found if number >= 0)
        is_known = len(known) == len(found)
        if any(_came_to_a_callee(value, names.id) for _, value in known):
            is_known = False
            names.filled.add(key)  # all its mentions are known only when the statement is over
        put_in(names, key, by, site, is_known=is_known)
        names.items[key] = known

    def filled(self, names: ScopeNames, site: Site) -> None:
        """A call in the statement has put values into containers of this scope, and the statement is over. Note the
        values that the statement mentions.
        """
        for key in names.filled:
            put_in(names, key, names, site, is_known=False)
        names.filled.clear()

    def latest_of(self, value: Value, pairs: Mapping[int, int]) -> Value:
        """The version of a value after a write; ``pairs`` are the numbers before and after it."""
        return self.by_number.get(pairs.get(-1 if value.number is None else value.number, -1), value)

    def renew(self, live: ScopeNames, key: str, pairs: Mapping[int, int], names: ScopeNames, site: Site) -> None:
        """The tensor that a live name holds was written to. The name now names the new version."""
        local = key.partition(OWN)[0]
        slot, renewed = [], []
        for leaf, value in live.slots[key]:
            number = None if value.number is None else pairs.get(value.number)
            if number is not None:
                is_new = number not in self.by_number
                latest = self.value(number, names, site, value)
                if is_new:
                    explain_written(latest, names, site, local, value)
                    self.renewed.add(latest)
                renewed.append((leaf, latest))
                value = latest
            slot.append((leaf, value))
        live.bind(local, key.removeprefix(local), tuple(slot), tuple(renewed))

    def mentioned(self, names: ScopeNames, found: Leaves) -> None:
        """A module that the statement called has returned. The statement mentions the module's return value."""
        for leaf, number in found:
            value = self.by_number.get(number)
            above, local, _, _ = value.names[-1] if value is not None and value.names else (None, "", 0, "")
            if value is not None and above is not None and local == "return":
                names.returned.append((f"{partition(above.path, '.')[-1]}()", ((leaf, value),)))

    def done(self, names: ScopeNames, site: Site) -> None:
        """A statement that binds nothing is over."""
        for name in fill(names, site):
            self.notes[Note("passes_on_many", {"name": repr(name), "most": str(MOST)})] = None
        names.returned.clear()
        names.calls.clear()
        self.renewed.clear()

    def returns(self, names: ScopeNames, code: Code, keeps: bool, since: int = 0) -> None:
        """A module has returned. Only its return value has the module's name, not that of its forward.

        The two differ if a hook returned something else. The forward's return value gets another name if it is kept.
        ``since`` is the number of return values from earlier calls.
        """
        held, counts = names.slots.get("return"), names.id.counts
        found = code if isinstance(code, tuple) else (("", code),)
        many = counts.get("return", 0) - since
        if held is None or not many or (len(held) == len(found) and all(map(_is_same, held, found))):
            return
        names.slots.pop("return")
        before = counts.get(OF_FORWARD, 0)
        counts["return"], counts[OF_FORWARD] = since, before + many
        gone = set()
        for value in self.made:
            own = [name for name in value.names if name[:2] == (names.id, "return") and name[2] >= since]
            for name in own:
                value.names.remove(name)
                if keeps:
                    value.names.append((names.id, OF_FORWARD, name[2] - since + before, *name[3:]))
            if own and not value.names:
                gone.add(value)
        self.drop(gone)

    # Methods for names that come from no statement.

    def parameter(self, path: str, number: int, root: ScopeNames) -> None:
        """Name a model's parameter by its path."""
        value = self.value(number, root, NO_SITE)
        value.names.append((None, path, 0, ""))
        self.latest = (("", value),)
        self.parameters.add(path, number, value)

    def absent(self, path: str, status: GradStatus, why: Reason, local: str) -> None:
        """Add a selected value that does not exist, such as the return value of a module that did not run."""
        scope = ScopeId(None, path, 0)
        value = Value(None, scope, NO_SITE, absent=(status, why))
        value.names.append((scope, local, 0, ""))
        self.made.append(value)

    def output(
        self, root: ScopeId | None, local: str, leaf: str, number: int, is_known: bool, site: Site, names: ScopeNames
    ) -> Value:
        """The value of an output, which always has an entry. If it has no name yet, it gets this local of the root.

        Without a root, ``local`` is the whole name.
        """
        value = self.value(number, names, site)
        if not is_known or not value.names:
            value.names.append((root, local, 0 if root is None else root.next_count(local), leaf))
        return value

    def unnamed(self, root: ScopeId, found: Sequence[tuple[str, int, int]]) -> None:
        """Give names to values that were read without one. ``found`` has the name, the number of the capture, and how
        many values were made before it.
        """
        held = [value for value in self.made if value.number is not None]
        for name, number, before in found:
            value = self.by_number[number] = Value(number, root, NO_SITE)
            local = quote(name)
            value.names.append((root, local, root.next_count(local), ""))
            at = self.made.index(held[before]) if before < len(held) else len(self.made)
            self.made.insert(at, value)

    def drop(self, gone: set[Value]) -> None:
        """Forget values that were made in a run that does not count."""
        for value in gone:
            value.names.clear()
        self.made[:] = [value for value in self.made if value not in gone]


def _came_to_a_callee(value: Value, scope: ScopeId) -> bool:
    # Was the value first seen as an argument of a function that runs for a statement of this scope? Then something in
    # between made it, such as a library that computes a value and passes it to a function of the program.
    if value.number is None or not value.site.is_head:
        return False
    above = value.scope.parent
    while above is not None and above is not scope:
        above = above.parent
    return above is not None


def _is_same(held: tuple[str, Value], found: tuple[str, int]) -> bool:
    # Does a name already hold this object, at this version?
    (before, value), (leaf, code) = held, found
    return before == leaf and (value.number == code if code >= 0 else code == SAME_PLAIN and value.number is None)
