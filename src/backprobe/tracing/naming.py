"""The names of values: the one reader of what a running program reports, which gives each value its names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backprobe.backends.protocol import Tape
from backprobe.record.entries import GradStatus
from backprobe.record.names import partition, quote
from backprobe.record.reasons import Note, Reason
from backprobe.source.sites import Site
from backprobe.tracing.provenance import MOST, Parameters, carry, explain, explain_returned, fill
from backprobe.tracing.values import NO_SITE, RETURNED, ScopeId, ScopeNames, Slot, Value, Values
from backprobe.tracing.versions import Versions

Leaves = Sequence[tuple[str, Any]]
"""The tensors and plain numbers that were bound at once, by leaf."""


class Naming:
    """Names each thing that a program binds, and notes what its statement mentions.

    A statement binds a name to a tensor or to what holds tensors (``bound``), to a number or None (``plain``), to
    something that was not selected (``passed_over``), or to something without a tensor (``carried``).
    """

    def __init__(
        self, tape: Tape, values: Values, versions: Versions, parameters: Parameters, *, operations: bool
    ) -> None:
        self.tape, self.values, self.versions, self.parameters = tape, values, versions, parameters
        self.notes: dict[Note, None] = {}
        self.operations = operations  # do operations have names too?
        self.seen: dict[str, None] = {}  # names the program has that were not selected

    # what a statement binds

    def bound(self, names: ScopeNames, local: str, found: Leaves, site: Site, own: str = "") -> None:
        """A name is bound to tensors, and perhaps numbers, by leaf."""
        held = names.slots.get(local + own)
        if held and len(held) == len(found) and self._same(held, found):
            self._explain(held, names, site)
            return  # the name holds this object already: it keeps its count
        value, is_tensor = self.versions.value, self.tape.is_tensor
        slot = tuple([
            (leaf, value(names, item, site) if is_tensor(item) else self._plain(names, item, site))
            for leaf, item in found
        ])  # fmt: skip
        self._explain(slot, names, site)
        names.bind(local, own, slot)

    def plain(self, names: ScopeNames, local: str, value: Any, site: Site, own: str = "") -> None:
        """A number or None is bound anew each time."""
        made = Value(None, 0, None, names.id, site, plain=value)
        self.values.made.append(made)
        slot = (("", made),)
        self._explain(slot, names, site)
        names.bind(local, own, slot)

    def passed_over(self, names: ScopeNames, local: str, is_differentiated: bool, own: str = "") -> None:
        """What was not selected has a name all the same."""
        if self.operations or not local.endswith("()"):
            self.seen[f"{names.id.stripped}:{local}"] = None
        names.slots.pop(local + own, None)
        names.passed_over[local] = is_differentiated

    def carried(self, names: ScopeNames, local: str, value: Any, site: Site, own: str = "") -> None:
        """What holds no tensor passes on what it was computed from."""
        names.slots.pop(local + own, None)
        names.passed_over[local] = False
        carry(names, local, value, site)

    def _plain(self, names: ScopeNames, plain: Any, site: Site) -> Value:
        value = Value(None, 0, None, names.id, site, plain=plain)
        self.values.made.append(value)
        return value

    def _same(self, held: Slot, found: Leaves) -> bool:
        """Does a name already hold these very objects, at these versions? Numbers alone are bound anew each time."""
        identity = self.tape.identity
        for (old, value), (leaf, item) in zip(held, found, strict=True):
            if old != leaf:
                return False
            if value.tensor is None:
                if item is not value.plain:
                    return False
            elif identity(item) != identity(value.tensor) or self.versions.version(item) != value.version:
                return False
        return any(value.tensor is not None for _, value in held)

    def _explain(self, slot: Slot, names: ScopeNames, site: Site) -> None:
        """Note what computes the values that this statement made, and those that this mentions, as they were before."""
        if site is not NO_SITE and site is not RETURNED:
            for leaf, value in slot:
                if value.site is site and value.scope is names.id and not value.is_explained:
                    value.is_explained = True
                    origin = site.origin.at(leaf) if leaf else site.origin
                    explain(value, origin, names, self.parameters, self.versions.renewed)
                elif (
                    value.scope is not names.id
                    and names.returned
                    and any(value is one for _, held in names.returned for _, one in held)
                ):
                    explain_returned(value, names, site)
        if self.versions.renewed:
            self.versions.renewed.clear()

    # what else a statement does

    def mentioned(self, names: ScopeNames, found: Leaves) -> None:
        """A module has returned, which the statement called: it mentions what has the module's name."""
        for leaf, item in found:
            value = self.values.latest.get(self.tape.identity(item)) if self.tape.is_tensor(item) else None
            above, local, _, _ = value.names[-1] if value is not None and value.names else (None, "", 0, "")
            if value is not None and above is not None and local == "return":
                names.returned.append((f"{partition(above.path, '.')[-1]}()", ((leaf, value),)))

    def done(self, names: ScopeNames, site: Site) -> None:
        """A statement that binds nothing is over."""
        for name in fill(names, site):
            self.notes[Note("passes_on_many", {"name": repr(name), "most": str(MOST)})] = None
        names.returned.clear()
        names.calls.clear()
        self.versions.renewed.clear()

    # names that no statement gives

    def parameter(self, path: str, tensor: Any, root: ScopeNames) -> None:
        """The name of a model's parameter is its path."""
        value = self.versions.value(root, tensor, NO_SITE)
        value.names.append((None, path, 0, ""))
        self.parameters.add(path, value)

    def absent(self, path: str, status: GradStatus, why: Reason) -> None:
        """A module that was selected, and whose return value does not exist."""
        scope = ScopeId(None, path, 0)
        value = Value(None, 0, None, scope, NO_SITE, absent=(status, why))
        value.names.append((scope, "return", 0, ""))
        self.values.made.append(value)

    def output(self, root: ScopeId, local: str, leaf: str, tensor: Any, site: Site, names: ScopeNames) -> Value:
        """An output always has an entry: it gets this local of the root where it has no name."""
        known = self.values.latest.get(self.tape.identity(tensor))
        value = self.versions.value(names, tensor, site)
        if value is not known or not value.names:
            value.names.append((root, local, root.next_count(local), leaf))
        return value

    def unnamed(self, root: ScopeId) -> None:
        """What is differentiated and was read under no name gets one, which the framework has for it."""
        if self.tape.unnamed is None:
            return
        held = [value for value in self.values.made if value.capture is not None]
        for name, capture, before in self.tape.unnamed([value.capture for value in held]):
            value = Value(capture.source, capture.version, capture, root, NO_SITE)
            local = quote(name)
            value.names.append((root, local, root.next_count(local), ""))
            at = self.values.made.index(held[before]) if before < len(held) else len(self.values.made)
            self.values.made.insert(at, value)
