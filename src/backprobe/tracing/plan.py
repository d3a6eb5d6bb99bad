"""A plan is what one selection implies for programs before they run. It is made once, and lives with the selection.

It holds names, decisions, types, code, and copies of functions of imported modules, but no part of a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backprobe.record.names import quote_path, strip
from backprobe.record.patterns import HOLD_NOTHING, Decisions, Selection
from backprobe.source.copies import Copies
from backprobe.source.followed_calls import Known
from backprobe.source.sites import Site
from backprobe.tracing.log import ScopeKind

MOST_KINDS = 4096
MOST_KNOWN = 4096


class Plan:
    """The decisions for one selection, cached by their subject. Modules are identified by their paths, as written."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.kinds: dict[Any, ScopeKind] = {}
        self.schemas: list[Any] = []  # the last used first: see ``backprobe.tracing.schema``
        self.followed: dict[Any, tuple[Known, Known, dict[Any, Any]]] = {}  # see ``codes``
        self.chosen: dict[Any, Any] = {}  # a backend's cache, by shape of a model
        # the paths of the parameters of the last model, their numbers, and the events that name them
        self.parameters: tuple[Sequence[str], Sequence[int], Sequence[Any]] | None = None
        self.bare: dict[type, set[type]] = {}  # by class of tape: types that are neither its tensors nor containers
        self.copies = Copies()
        self.wants_output = Decisions(lambda path: selection.wants_return(quote_path(path)))
        self.wants_locals = Decisions(self._decide_locals)
        self.wants_parameter = Decisions(lambda path: selection.might_want(quote_path(path)))
        self.modules = Decisions(lambda path: self.kind(quote_path(path), "", "", ()))

    @classmethod
    def of(cls, selection: Selection) -> Plan:
        if selection.plan is None:
            selection.plan = cls(selection)
        found: Plan = selection.plan
        return found

    def _decide_locals(self, path: str) -> bool:
        scope = quote_path(path)
        return self.selection.wants_locals(scope) or self.selection.wants_calls(scope)

    def kind(self, path: str, above: str, file: str, sites: Sequence[Site]) -> ScopeKind:
        """The kind of a scope: ``above`` is the path of the caller, without counts, or empty for a module."""
        key = above, path, file, id(sites)
        found = self.kinds.get(key)
        if found is None:
            if len(self.kinds) > MOST_KINDS:  # a program may create functions without end
                self.kinds.clear()
            stripped = above + path if path.startswith("/") else strip(path)
            found = self.kinds[key] = ScopeKind(self.selection, path, stripped, file, sites)
        return found

    def bare_types(self, tape: type) -> set[type]:
        """The types that a tape has found to be neither tensors nor containers."""
        return self.bare.setdefault(tape, {*HOLD_NOTHING})

    def codes(self, tape: type, home: str | None) -> tuple[Known, Known, dict[Any, Any]]:
        """For programs in the package ``home``: code that is not followed, code that is followed, and known calls.

        The last are facts about calls that are not followed: see ``Scope``.
        """
        foreign, own, calls = found = self.followed.setdefault((tape, home), ({}, {}, {}))
        if len(foreign) + len(own) > MOST_KNOWN:  # a program may create functions without end
            foreign.clear()
            own.clear()
            calls.clear()
        return found
