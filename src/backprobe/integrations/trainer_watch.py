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
"""The options of ``bp.watch`` that the trainer knows."""
CALLED = "WatchCallback(folder{})"


class TrainerWatch:
    """Opened as a training begins, with the options of ``bp.watch``; closed as it ends.

    A trainer may not say that an exception has ended its training: then it is closed when the next one begins, or with
    the trainer.
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
        """A training begins. Raises what ``bp.watch`` raises."""
        self.close()
        with ExitStack() as opened:
            self.run = opened.enter_context(watch(model, self.folder, **given, **self.options))
            self.opened = opened.pop_all()
        weakref.finalize(self, self.opened.close)

    def log(self, numbers: Mapping[str, Any]) -> None:
        """Numbers beside the step that runs or has just ended; what is not a number is left out."""
        if self.run is not None:
            kept = {name: one for name, one in numbers.items() if isinstance(one, Real) and not isinstance(one, bool)}
            self.run.log(**kept)

    def close(self, error: BaseException | None = None) -> None:
        """The training is over, by this exception or in order."""
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
        """The watch, while a training runs."""
        return self._watch.run
