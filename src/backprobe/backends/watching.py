"""A watched model in any framework that runs models: its options, the lines of its modules, and the rows of its
parameters.

Each backend observes values in its own way: by hooks, in a compiled graph, or as the result of a loss function.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from types import FrameType
from typing import Any, TypeVar

from backprobe.backends.user_lines import calling_line
from backprobe.backends.watched_names import WatchedSelection, named
from backprobe.backends.watches import PARAMETER, UPDATE, StepListener, Watching, WatchOptions
from backprobe.errors import BadOption
from backprobe.record.statistics import Row, merged

P = TypeVar("P")


class ModelWatching(Watching):
    """One watched model, in the thread that began to watch it."""

    def __init__(
        self, model: Any, options: WatchOptions, listener: StepListener, asked: str, *, has_locals: bool = False
    ) -> None:
        self.model, self.options, self.listener, self.asked = model, options, listener, asked
        self.selection = WatchedSelection(options.select, asked, has_locals=has_locals)
        self.thread = threading.get_ident()

    def say_line(self, path: str, frame: FrameType) -> None:
        """Report the line that calls a module for the first time. The line is searched from this frame outwards."""
        line = calling_line(frame)
        if line is not None:
            self.listener.line(named(path, ""), line)

    def refuse_step(self, found: str, next: str) -> BadOption:
        """Return the error for a call of ``run.step()`` when an optimizer ends the steps."""
        return BadOption("the optimizer ends the steps of this run", asked="run.step()", found=found, next=next)


def parameter_rows(
    options: WatchOptions,
    stepped: Iterable[P],
    before: Container[P],
    now: Callable[[P], Any],
    difference: Callable[[P], Any],
) -> Iterator[tuple[P, str, Any]]:
    """Yield the rows of parameters that ``options`` ask for, after an optimizer has stepped. Each is given as the
    parameter, the kind and the numbers.
    """
    for one in stepped:
        if options.parameters:
            yield one, PARAMETER, now(one)
        if options.updates and one in before:
            yield one, UPDATE, difference(one)


def later(rows: Mapping[int, Sequence[Any]], row: Callable[[Any], Row]) -> Callable[[], Mapping[int, Row]]:
    """Return a function that waits for these rows to be computed, and merges rows of the same place."""
    return lambda: {place: reduce(merged, map(row, held)) for place, held in rows.items()}
