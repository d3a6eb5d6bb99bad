"""A plan holds the decisions that follow from one selection, whatever program runs. It exists as long as the
selection.
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
    """The decisions for one selection, each computed when it is first needed and then stored. Modules are identified by
    their paths in the model.
    """

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.kinds: dict[Any, ScopeKind] = {}
        self.schemas: list[Any] = []  # the most recently used first: see ``tracing.schema``
        self.followed: dict[Any, tuple[Known, Known, dict[Any, Any]]] = {}  # by tape and package: see ``codes``
        self.chosen: dict[Any, Any] = {}  # cached by the backend, for each shape of a model
        # For the last model whose parameters were named together: their paths, the numbers of their values, and the
        # events that name them.
        self.parameters: tuple[Sequence[str], Sequence[int], Sequence[Any]] | None = None
        self.bare: dict[type, set[type]] = {}  # by class of tape: types of values that hold no tensor
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
        """Return the kind of a scope. ``above`` is the caller's path without counts; for a module it is empty."""
        key = above, path, file, id(sites)
        found = self.kinds.get(key)
        if found is None:
            if len(self.kinds) > MOST_KINDS:  # a program may create functions in an endless loop
                self.kinds.clear()
            stripped = above + path if path.startswith("/") else strip(path)
            found = self.kinds[key] = ScopeKind(self.selection, path, stripped, file, sites)
        return found

    def bare_types(self, tape: type) -> set[type]:
        """Return the types whose values are known to hold no tensor, for one class of tape."""
        return self.bare.setdefault(tape, {*HOLD_NOTHING})

    def codes(self, tape: type, home: str | None) -> tuple[Known, Known, dict[Any, Any]]:
        """Return the code that is not followed, the code that is followed, and known calls, for programs in the package
        ``home``.

        Known calls are facts about calls that are not followed: see ``Recorder.known_calls``.
        """
        foreign, own, calls = found = self.followed.setdefault((tape, home), ({}, {}, {}))
        if len(foreign) + len(own) > MOST_KNOWN:  # a program may create functions in an endless loop
            foreign.clear()
            own.clear()
            calls.clear()
        return found
