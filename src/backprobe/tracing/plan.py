"""Everything known of programs before they run, for one selection: worked out once, kept as long as the selection.

A plan holds names, decisions, types, code, and copies of functions of imported modules: nothing of a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backprobe.record.names import quote_path, strip
from backprobe.record.patterns import HOLD_NOTHING, Decisions, Selection
from backprobe.source.copies import Copies
from backprobe.source.followed_calls import Known
from backprobe.source.sites import Site
from backprobe.tracing.course import Courses
from backprobe.tracing.log import ScopeKind

MOST_KINDS = 4096
MOST_KNOWN = 4096
MOST_PROGRAMS = 64


class Plan:
    """The decisions for one selection, cached by their subject. Modules are given by their paths, as written."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.kinds: dict[Any, ScopeKind] = {}
        self.schemas: list[Any] = []  # see ``backprobe.tracing.schema``, the last used first
        self.courses: dict[Any, Courses] = {}  # by what distinguishes one program from another
        self.followed: dict[Any, tuple[Known, Known, dict[Any, Any]]] = {}  # see ``codes``
        self.chosen: dict[Any, Any] = {}  # what a backend has made of these for one shape of a model
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

    def courses_of(self, program: Any) -> Courses:
        """What is known of the journals of a program."""
        if program not in self.courses:
            if len(self.courses) > MOST_PROGRAMS:
                self.courses.clear()
            self.courses[program] = Courses()
        return self.courses[program]

    def kind(self, path: str, above: str, file: str, sites: Sequence[Site]) -> ScopeKind:
        """The kind of a scope: ``above`` is the path of the caller, without counts, or empty for a module."""
        key = above, path, file, id(sites)
        found = self.kinds.get(key)
        if found is None:
            if len(self.kinds) > MOST_KINDS:  # functions may be made anew
                self.kinds.clear()
            stripped = above + path if path.startswith("/") else strip(path)
            found = self.kinds[key] = ScopeKind(self.selection, path, stripped, file, sites)
        return found

    def bare_types(self, tape: type) -> set[type]:
        """The types that a tape has found to be neither tensors nor containers."""
        return self.bare.setdefault(tape, {*HOLD_NOTHING})

    def codes(self, tape: type, home: str | None) -> tuple[Known, Known, dict[Any, Any]]:
        """The code that is not followed, and that is, in a program that is part of this package.

        And what is known of calls that are not followed, see ``Scope``.
        """
        foreign, own, calls = found = self.followed.setdefault((tape, home), ({}, {}, {}))
        if len(foreign) + len(own) > MOST_KNOWN:  # functions may be made anew
            foreign.clear()
            own.clear()
            calls.clear()
        return found
