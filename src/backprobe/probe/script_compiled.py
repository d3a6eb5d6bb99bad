"""Runs a script once more, compiled, to see whether an error comes only there, or only without compiling.

Scripts are observed uncompiled. There a loop with a traced bound has a derivative, a traced value that a list keeps is
a number, and donated memory can still be read: a program that fails by itself looks healthy. So a script without
findings runs again as it runs by itself, to where it was stopped. If it raises an error, it runs once more uncompiled:
the error counts only if it does not come there, because then compiling makes the difference.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from backprobe.backends.side_effects import StoppedAtEffect
from backprobe.backends.user_lines import Place
from backprobe.probe.bridged_run import Enough
from backprobe.probe.script_experiments import SHORTEST, ScriptExperiments
from backprobe.source.bridged_code import BEGIN, MADE, SEEN, at_line
from backprobe.source.main_module import as_main


class NotKnown(Exception):
    """Raised if the script cannot run again."""


@dataclass
class StoppedRun:
    """A run that changes nothing, and ends as a statement at ``place`` begins once more after ``most`` times."""

    again: ScriptExperiments
    place: Place | None
    most: int
    until: float

    def outcome(self, *, is_compiled: bool) -> BaseException | None:
        """Run the script. Returns its error, Enough if it was stopped, or None if it came to its end."""
        again = self.again
        if not (again.backend.checks_compiled and again.may_run()):
            raise NotKnown
        hooks: dict[str, Callable[..., Any]] = {BEGIN: self._begin, SEEN: _seen, MADE: _made}
        bridges = None if again.backend.bridges is None else again.backend.bridges()
        with again.anew(again.code, hooks, bridges, is_compiled=is_compiled) as is_free:
            if not is_free:
                raise NotKnown
            try:
                with warnings.catch_warnings(), as_main(again.arguments, again.spec) as main:
                    warnings.simplefilter("ignore")  # what compiling warns of is no error
                    vars(main).update(hooks)
                    exec(again.code(str(main.__file__)), vars(main))
            except Enough as enough:
                return enough
            except SystemExit as end:
                return end if end.code else None
            except Exception as error:  # noqa: BLE001  whatever it is, it is the outcome
                return error
        return None

    def _begin(self, number: int) -> None:
        if time.monotonic() > self.until:
            raise Enough
        if self.place is not None and number in at_line(self.again.statements, *self.place):
            self.most -= 1
            if self.most < 0:
                raise Enough


def compiled_error(again: ScriptExperiments, place: Place | None, most: int) -> Exception | None:
    """Return the error that the script raises compiled, if it raises none uncompiled. None if there is none, or if it
    is unknown: the script may not run again, a side effect has ended a run, or the time has ended the compiled run.

    ``place`` is the line at which the script was stopped, and ``most`` how often it had run at most.
    """
    with _as_before(again) as until:
        error = StoppedRun(again, place, most, until).outcome(is_compiled=True)
        if isinstance(error, Exception):
            without = StoppedRun(again, place, most, until).outcome(is_compiled=False)
            return None if isinstance(without, Exception) else error
    return None


def ends_compiled(again: ScriptExperiments) -> bool:
    """Does a script that raised an error uncompiled come to its end compiled? False if this is unknown."""
    with _as_before(again) as until:
        return StoppedRun(again, None, 0, until).outcome(is_compiled=True) is None
    return False


@contextmanager
def _as_before(again: ScriptExperiments) -> Iterator[float]:
    # Within this context the script may run until this time. What stops it is no error of the program.
    with suppress(StoppedAtEffect, SyntaxError, OSError, KeyboardInterrupt, NotKnown), again.as_before():
        yield time.monotonic() + max(SHORTEST, again.seconds)


def _seen(value: Any, name: str = "", is_within: bool = False) -> Any:
    return value


def _made(begun: None, value: Any, *owners: Any) -> Any:
    return value
