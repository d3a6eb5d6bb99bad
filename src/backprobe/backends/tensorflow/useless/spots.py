"""The place of an operation: the user's line, and the Keras layer or loss that runs it, for example inside ``fit``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from backprobe.backends.useless import InPart
from backprobe.backends.user_lines import Place, callers, source_at
from backprobe.record.source import Source
from backprobe.source.user_code import package

NO_PART = ("", "")


class Spot(NamedTuple):
    """The line of an operation, and the part that runs it there: a layer's path and class, or a loss's name."""

    place: Place
    part: tuple[str, str]

    @property
    def source(self) -> Source:
        """The line, with the part if there is one."""
        line = source_at(*self.place)
        return line if self.part == NO_PART else InPart(line.file, line.line, line.text, part=self.part)


def spot() -> Spot | None:
    """Return the line and part of the operation that is running; None if no code of the program is running."""
    running: dict[int, Any] = {}  # by id: Keras has two nested methods ``__call__``
    for frame in callers(sys._getframe(1)):
        code = frame.f_code
        if package(code.co_filename) is None:
            return Spot((code.co_filename, frame.f_lineno), _part([*running.values()]))
        if code.co_name == "__call__":
            one = frame.f_locals.get("self")
            running[id(one)] = one
    return None


def source_of(one: Spot | None) -> Source | None:
    """Return the line of a spot; None if there is no spot."""
    return None if one is None else one.source


def _part(running: Sequence[Any]) -> tuple[str, str]:
    # Return the path and class of the innermost running callable, if it is a layer inside a model or a loss that was
    # passed to compile(). A callable that the program's line itself calls does not count.
    keras = sys.modules.get("keras")
    if keras is None:
        return NO_PART
    parts = [one for one in running if isinstance(one, keras.Loss | keras.Layer)]
    if len(parts) < 2:
        return NO_PART
    if isinstance(parts[0], keras.Loss):
        return parts[0].name, ""
    return ".".join(one.name for one in reversed(parts[:-1])), type(parts[0]).__name__
