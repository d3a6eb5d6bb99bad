"""A watch that a trainer's callback keeps open, from the beginning of a training to its end."""

from __future__ import annotations

import inspect
import os
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from numbers import Real
from typing import Any

from backprobe.errors import BadOption
from backprobe.findings.phrasing import listed
from backprobe.record.brief import written
from backprobe.record.names import nearest
from backprobe.record.renamed import refuse_renamed
from backprobe.watch import Watch, watch
from backprobe.watch.options import RENAMED

GIVEN = ("optimizer", "scaler", "start_step", "rank")
"""Options of ``bp.watch`` that the callback does not accept, because it takes them from the trainer or the process."""
CALLED = "WatchCallback(folder{})"


class TrainerWatch:
    """A watch that is opened when a training begins and closed when it ends.

    Some trainers do not report that an exception has ended a training. The watch is then closed when the next training
    begins, or when the trainer is deleted.
    """

    def __init__(self, folder: str | os.PathLike[str], options: Mapping[str, Any]) -> None:
        known = [name for name in inspect.signature(watch).parameters if name not in ("model", "folder", *GIVEN)]
        refuse_renamed(CALLED, RENAMED, options)
        for name in options:
            if name not in known:
                close = nearest(name, known)
                why = "the trainer has it: the callback asks for it" if name in GIVEN else ""
                raise BadOption(
                    f"WatchCallback has no option {name!r}",
                    asked=f"WatchCallback({written(folder)}, {name}=...)",
                    found=listed(known),
                    why=why,
                    next=f"WatchCallback({written(folder)}, {close[0]}=...)"
                    if close and not why
                    else f"WatchCallback({written(folder)})",
                )
        self.folder, self.options = folder, dict(options)
        self.run: Watch | None = None
        self.opened = ExitStack()

    def open(self, model: Any, **given: Any) -> None:
        """Open the watch, because a training begins. Raises the errors of ``bp.watch``."""
        self.close()
        with ExitStack() as opened:
            self.run = opened.enter_context(watch(model, self.folder, **given, **self.options))
            self.opened = opened.pop_all()
        weakref.finalize(self, self.opened.close)

    def log(self, numbers: Mapping[str, Any]) -> None:
        """Log numbers for the step that is running or has just ended. Values that are not numbers are left out."""
        if self.run is not None:
            kept = {name: one for name, one in numbers.items() if isinstance(one, Real) and not isinstance(one, bool)}
            self.run.log(**kept)

    def close(self, error: BaseException | None = None) -> None:
        """Close the watch, because the training has ended normally or with ``error``."""
        self.run = None
        if error is None:
            self.opened.close()
        else:
            self.opened.__exit__(type(error), error, error.__traceback__)


class HasWatch:
    """A callback that keeps a watch open."""

    _watch: TrainerWatch

    @property
    def run(self) -> Watch | None:
        """The watch of the training that is running; None if no training runs."""
        return self._watch.run
