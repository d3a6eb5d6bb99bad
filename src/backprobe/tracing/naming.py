"""Gives names to values, by reading the statements of a log, and records which values each statement mentions."""

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
"""The codes of the values that a statement bound together. Each has the path of a leaf."""


class Naming:
    """Names each value that a program binds, and records which values the binding statement mentions."""

    def __init__(self, previous: Mapping[int, int], decide: Callable[[Value], None], *, operations: bool) -> None:
        self.previous, self.decide = previous, decide
        self.made: list[Value] = []  # all values, in the order of their first names
        self.by_number: dict[int, Value] = {}
        self.parameters = Parameters()
        self.notes: dict[Note, None] = {}
        self.operations = operations  # do unnamed operations get names too?
        self.seen: dict[str, None] = {}  # names of the program that were not selected
        self.renewed: set[Value] = set()  # values to which the current statement has written
        self.plains = 0  # the number of plain numbers read so far
        self.latest: Slot = ()  # the values that the latest statement has bound

    def value(self, number: int, names: ScopeNames, site: Site, previous: Value | None = None) -> Value:
        """Return the value of a captured tensor. It is created when the tensor's number is first read."""
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
        """Record that a statement has bound a local to the value with this code."""
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
            names.forget(local + own)
            names.passed_over[local] = code == DIFFERENTIATED
        else:
            assert code in (CARRIED, FILLED)
            carry(names, local, code == FILLED, site)  # the statement may mention the name's old value
            names.forget(local + own)
            names.passed_over[local] = False

    def _bound(self, names: ScopeNames, local: str, found: Leaves, site: Site, own: str) -> None:
        held = names.slots.get(local + own)
        if held and len(held) == len(found) and all(map(_is_same, held, found)):
            self.plains += sum(code < 0 for _, code in found)
            self._explain(held, names, site)
            return  # the name already holds this object, so its count stays the same
        slot = self.latest = tuple(
            [(leaf, self.value(code, names, site) if code >= 0 else self._plain(names, site)) for leaf, code in found]
        )
        self._explain(slot, names, site)
        names.bind(local, own, slot)

    def _plain(self, names: ScopeNames, site: Site) -> Value:
        # Return a new value for a number or None. Each binding creates one, even of the same number.
        value = Value(None, names.id, site, plain_at=self.plains)
        self.plains += 1
        self.made.append(value)
        return value

    def _explain(self, slot: Slot, names: ScopeNames, site: Site) -> None:
        # For each value that this statement has created, store its expression and the values that the expression
        # mentions, at the versions that they had before the statement. For a value that a called function has returned,
        # store what this statement mentions, as far as that is needed.
        if site is not NO_SITE and site is not RETURNED:
            for leaf, value in slot:
                if value.scope is not names.id and _came_to_a_callee(value, names.id):
                    value.scope, value.site = names.id, site  # the statement that created the value
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
        """Mark the values of the latest statement: they are replacements, or their gradients are replaced."""
        held = dict(self.latest)
        for leaf, original_at, is_gradient in marks:
            held[leaf].original_at, held[leaf].replaced_grad = original_at, is_gradient

    # Methods for the other effects of a statement.

    def changed(self, names: ScopeNames, key: str, found: Leaves, by: ScopeNames, site: Site) -> None:
        """Record that a statement of the scope ``by`` has changed the contents of the container that a name holds.

        The new contents get no names from this. An item that was not captured before counts as computed from the values
        that the statement mentions.
        """
        held = names.slots.get(key)
        if held is None or any(not leaf for leaf, _ in held):
            return
        known = tuple((leaf, self.by_number[number]) for leaf, number in found if number >= 0)
        is_known = len(known) == len(found)
        if any(_came_to_a_callee(value, names.id) for _, value in known):
            is_known = False
            names.filled.add(key)  # add its mentions when the statement is over
        put_in(names, key, by, site, is_known=is_known)
        names.items[key] = known

    def filled(self, names: ScopeNames, site: Site) -> None:
        """Add the values that a statement mentions to the containers that a call in this statement has filled. The
        statement is over now.
        """
        for key in names.filled:
            put_in(names, key, names, site, is_known=False)
        names.filled.clear()

    def latest_of(self, value: Value, pairs: Mapping[int, int]) -> Value:
        """Return the version of a value after a write; the value itself if it was not written to.

        ``pairs`` maps numbers before the write to numbers after it.
        """
        return self.by_number.get(pairs.get(-1 if value.number is None else value.number, -1), value)

    def renew(self, live: ScopeNames, key: str, pairs: Mapping[int, int], names: ScopeNames, site: Site) -> None:
        """Record that the tensor of a live name was written to. The name now refers to the new version."""
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
        """Record that a module called by the running statement has returned. The statement now mentions the module's
        return value.
        """
        for leaf, number in found:
            value = self.by_number.get(number)
            above, local, _, _ = value.names[-1] if value is not None and value.names else (None, "", 0, "")
            if value is not None and above is not None and local == "return":
                names.returned.append((f"{partition(above.path, '.')[-1]}()", ((leaf, value),)))

    def done(self, names: ScopeNames, site: Site) -> None:
        """Record that a statement without a binding is over."""
        for name in fill(names, site):
            self.notes[Note("passes_on_many", {"name": repr(name), "most": str(MOST)})] = None
        names.returned.clear()
        names.calls.clear()
        self.renewed.clear()

    def returns(self, names: ScopeNames, code: Code, keeps: bool, since: int = 0) -> None:
        """Record that a module has returned. The module's name belongs to its return value, even if a hook has changed
        it.

        If the forward returned something else, that value gets another name, provided that ``keeps`` is true. ``since``
        is the number of return values from earlier calls.
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
        """Add a selected value that does not exist, for example the return value of a module that did not run."""
        scope = ScopeId(None, path, 0)
        value = Value(None, scope, NO_SITE, absent=(status, why))
        value.names.append((scope, local, 0, ""))
        self.made.append(value)

    def output(
        self, root: ScopeId | None, local: str, leaf: str, number: int, is_known: bool, site: Site, names: ScopeNames
    ) -> Value:
        """Return the value of an output, which always has an entry. If the value has no name, this local of the root
        becomes its name.

        Without a root, ``local`` is the whole name.
        """
        value = self.value(number, names, site)
        if not is_known or not value.names:
            value.names.append((root, local, 0 if root is None else root.next_count(local), leaf))
        return value

    def unnamed(self, root: ScopeId, found: Sequence[tuple[str, int, int]]) -> None:
        """Give names to values that the program read without a name. For each value, ``found`` has the name, the number
        of its capture, and the number of values before it.
        """
        held = [value for value in self.made if value.number is not None]
        for name, number, before in found:
            value = self.by_number[number] = Value(number, root, NO_SITE)
            local = quote(name)
            value.names.append((root, local, root.next_count(local), ""))
            at = self.made.index(held[before]) if before < len(held) else len(self.made)
            self.made.insert(at, value)

    def drop(self, gone: set[Value]) -> None:
        """Forget these values and their names, for example those of a run whose result is not used."""
        for value in gone:
            value.names.clear()
        self.made[:] = [value for value in self.made if value not in gone]


def _came_to_a_callee(value: Value, scope: ScopeId) -> bool:
    # Was the value first seen as an argument of a function that runs for a statement of this scope? Then code in
    # between created it: for example, a library computed it and passed it to a function of the program.
    is_argument = value.number is not None and value.site.is_head
    return is_argument and value.scope is not scope and scope in value.scope.with_callers()


def _is_same(held: tuple[str, Value], found: tuple[str, int]) -> bool:
    # Does a name already hold this object, in the same version?
    (before, value), (leaf, code) = held, found
    return before == leaf and (value.number == code if code >= 0 else code == SAME_PLAIN and value.number is None)
