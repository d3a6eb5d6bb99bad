"""A whole script, run as ``python script.py`` would run it, whose memory is measured in its first steps."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec

from backprobe.backends.discover import load_backend
from backprobe.backends.refusals import refuse
from backprobe.memory.report import MemoryReport
from backprobe.source.main_module import as_main, compiled

LEAST = 4
"""Steps after which anything can be said of earlier ones."""


class EnoughSteps(BaseException):
    """The script has made as many steps as were asked for."""


class ScriptMemory:
    """One run of a script; ``report`` is of the end of a step, when the variables of its functions are there."""

    def __init__(self, steps: int) -> None:
        backend = load_backend("torch")
        self.listener = (backend.memory or refuse(backend, "memory", "backprobe memory"))(None)
        self.steps, self.report, self.is_stopped = steps, MemoryReport(), False

    def run(self, arguments: Sequence[str], spec: ModuleSpec | None = None) -> None:
        """Run it. Its errors are raised here, SystemExit with its status among them. Raises NoBackend."""
        self.listener.after_step = self._after_step
        self.listener.open()
        try:
            with as_main(arguments, spec) as main:
                exec(compiled(str(main.__file__)), vars(main))
        except EnoughSteps:
            self.is_stopped = True
        finally:
            self.listener.close()
            if not self.report.steps:
                self.report._fill(self.listener, sys._getframe())

    def _after_step(self, count: int) -> None:
        if count >= min(LEAST, self.steps):
            self.report._fill(self.listener, sys._getframe())
        if count >= self.steps:
            raise EnoughSteps
