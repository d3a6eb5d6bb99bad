"""A scope of journalling code whose reports are all processed at once."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from backprobe.tracing.journal_reading import Reading
from backprobe.tracing.scope import Scope

NOTHING_KNOWN: Mapping[Any, Any] = MappingProxyType({})


class Live:
    """A scope to which journalling code reports once the journal is live. Each report is processed at once."""

    __slots__ = ("module", "reading", "returned", "scope")

    def __init__(self, scope: Scope, reading: Reading | None = None, module: Any = None) -> None:
        """If ``reading`` is given, the return value of ``module`` is reported to it."""
        self.scope, self.reading, self.module = scope, reading, module
        self.returned: Any = None

    @property
    def words(self) -> tuple[Any, ...]:
        """Like ``Journal.words``. No function is known here, so each call goes through the scope."""
        return self.extend, NOTHING_KNOWN.get, type, NOTHING_KNOWN.get, id

    def extend(self, said: Any) -> None:
        """Report bound values. ``said`` alternates between sites and values."""
        turns = iter(said)
        for at, value in zip(turns, turns, strict=True):
            self.scope.bind(at, value)
            if self.reading is not None and self.scope.locals[at] == "return":
                self.returned = value

    def within(self) -> None:
        """Does nothing: the state of histories is read at each binding."""

    settle = within

    def __getattr__(self, word: str) -> Any:
        return getattr(self.scope, word)

    def __enter__(self) -> Live:
        return self

    def __exit__(self, kind: Any, *error: object) -> None:
        self.scope.exit(kind, *error)
        if self.reading is not None and kind is None:
            self.reading.module_returned(self.module, self.returned)
