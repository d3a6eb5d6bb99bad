"""Runs one program with edits of its text. The same edits in the same order run at most once, and the number of runs is
limited.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from types import FunctionType
from typing import Any

from backprobe.backends.protocol import Backend
from backprobe.findings.report import Report
from backprobe.recording import Recording
from backprobe.source.edits import Edit
from backprobe.source.exchanged import NotExchanged, exchanged, functions_of
from backprobe.source.user_code import package

Again = Callable[[AbstractContextManager[Any]], Recording[Any, Any]]
"""Runs the program once more inside a context, and restores the program's state."""

Explains = Callable[[Recording[Any, Any]], Report]


@dataclass(eq=False)
class Trial:
    """One run with edits. ``recording`` is None if the run ended with an error.

    ``raised`` are the program's own lines in the error's traceback, the innermost first. ``files`` maps the file names
    of edited texts, as the recording has them, to the original file names.
    """

    recording: Recording[Any, Any] | None
    raised: Sequence[tuple[str, int]] = ()
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass
class EditTrials:
    """The runs of one program with edits. ``left`` is the number of further runs that are allowed."""

    backend: Backend
    again: Again
    explains: Explains
    left: int
    known: dict[tuple[Edit, ...], Trial | None] = field(default_factory=dict)
    refused: str = ""
    """The reason for which the last refused run was refused; empty if no run was refused."""

    alive: dict[str, list[FunctionType]] = field(default_factory=dict)

    @cached_property
    def baseline(self) -> Recording[Any, Any]:
        """The recording of an unchanged run."""
        return self.again(nullcontext())

    def functions(self, file: str) -> Sequence[FunctionType]:
        """The functions that were created from a file before the first trial with edits of it."""
        if file not in self.alive:
            self.alive[file] = functions_of(file)
        return self.alive[file]

    def run(self, *edits: Edit) -> Trial | None:
        """The trial with these edits; None if it cannot be made."""
        if edits not in self.known:
            if self.left <= 0:
                return None
            self.known[edits] = self._run(edits)
        return self.known[edits]

    def _run(self, edits: tuple[Edit, ...]) -> Trial | None:
        files: dict[str, str] = {}

        @contextmanager
        def within() -> Iterator[None]:
            with exchanged(edits, self.functions) as given:
                files.update(given)
                yield

        try:
            made = self.again(within())
        except NotExchanged as error:
            self.refused = str(error)
            return None
        except Exception as error:  # noqa: BLE001  the edited program may raise anything
            self.left -= 1
            frames = traceback.extract_tb(error.__traceback__)
            at = [(files.get(one.filename, one.filename), one.lineno or 0) for one in reversed(frames)]
            return Trial(None, [one for one in at if package(one[0]) is None], files)
        self.left -= 1
        return Trial(made, files=files)
