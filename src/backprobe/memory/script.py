"""Measures the memory of a whole script in its first steps. The script runs as with ``python script.py``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import CodeType

from backprobe.backends.discover import load_backend
from backprobe.backends.refusals import refuse
from backprobe.errors import Unsupported
from backprobe.memory.report import MemoryReport
from backprobe.memory.tried import with_tried
from backprobe.probe.script import frameworks_of
from backprobe.probe.script_experiments import Beginning, ScriptExperiments
from backprobe.source.main_module import as_main, compiled

WITHOUT = "{} has no optimizer that tells where a step of a script ends"
BLOCK = "with bp.memory() as report: around the loop, and report.step() at the end of each step"

LEAST = 4
"""The smallest number of steps in which objects of earlier steps can be found."""


class EnoughSteps(BaseException):
    """Ends the script after the requested number of steps."""


class ScriptMemory:
    """One run of a script. ``report`` is filled at the end of each step from number ``LEAST`` on, while the variables
    of the script's functions exist; after fewer steps, when the script ends.
    """

    def __init__(self, steps: int) -> None:
        self.steps, self.report, self.is_stopped = steps, MemoryReport(), False

    def run(self, arguments: Sequence[str], spec: ModuleSpec | None = None) -> None:
        """Run the script. Its errors are raised here, including SystemExit. Raises NoBackend and Unsupported."""
        self.backend = load_backend(frameworks_of(str(arguments[0]), None)()[0])
        self.arguments, self.spec, self.beginning = arguments, spec, Beginning()
        started = time.process_time()
        try:
            self._ran(compiled)
        finally:
            # processor time, which other programs on the machine do not affect
            self.seconds = time.process_time() - started

    def _ran(self, code: Callable[[str], CodeType]) -> None:
        self.listener = (self.backend.memory or refuse(self.backend, "memory", "backprobe memory"))(None)
        if not self.listener.hears_steps:
            raise Unsupported(WITHOUT.format(self.backend.title), asked="backprobe memory", next=BLOCK)
        self.listener.after_step = self._after_step
        self.listener.open()
        try:
            with as_main(self.arguments, self.spec) as main:
                exec(code(str(main.__file__)), vars(main))
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

    def try_remedies(self) -> None:
        """Run the script again with each proposed line, if possible; the report says whether it helped."""
        experiments = ScriptExperiments(
            self.beginning, self.backend, str(self.arguments[0]), self.arguments, self.spec, 0, (), self.seconds
        )
        with_tried(self.report, experiments, self._again)

    def _again(self, code: Callable[[str], CodeType]) -> MemoryReport | None:
        again = ScriptMemory(self.steps)
        again.backend, again.arguments, again.spec = self.backend, self.arguments, self.spec
        try:
            again._ran(code)
        except SystemExit as error:
            return None if error.code else again.report
        except Exception:  # noqa: BLE001  whatever it is, the script has gone another way
            return None
        return again.report
