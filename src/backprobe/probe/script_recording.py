"""A whole script, run like ``python script.py``, and the recording of its first gradients."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from importlib.machinery import ModuleSpec

from backprobe.backends.protocol import Backend
from backprobe.probe.request import Request
from backprobe.probe.script import ScriptBlock, frameworks_of
from backprobe.probe.training_loop import LoopPart, Stopped, TrainingLoop
from backprobe.record.reasons import Note
from backprobe.recording import Recording

STOPPED = Note("first_gradients")


class ScriptRecording:
    """One run of a script. It is stopped after the second iteration that takes gradients, which usually repeats the
    first.
    """

    def __init__(self, probe: Request, file: str, arguments: Sequence[str], spec: ModuleSpec | None = None) -> None:
        self.spec = spec  # the spec of a module that runs like ``python -m``
        self.probe, self.file, self.arguments = probe, file, [file, *arguments]
        self.recording: Recording | None = None
        self.differentiates_functions = False  # is the script's framework one without blocks?
        self.has_exited = False  # did the script itself exit, with the status 0?

    def run(self) -> None:
        """Run the script. Raises its errors, including SystemExit with its status."""
        frameworks = frameworks_of(self.file, self.probe.backend)
        loop = TrainingLoop(self.probe, os.path.abspath(self.file), self._over, ScriptBlock, frameworks)
        loop.without_blocks = self._without_blocks
        try:
            loop.run(self.arguments, self.spec)
        except Stopped:
            assert self.recording is not None
            record = self.recording.record
            self.recording = Recording(replace(record, notes=(*record.notes, STOPPED)))
        except SystemExit as error:
            if error.code:
                raise
            self.has_exited = True

    def _without_blocks(self, backend: Backend) -> None:
        self.differentiates_functions = True

    def _over(self, block: LoopPart, error: BaseException | None) -> bool:
        # Called when a part of the script is over. Returns whether this was the second part that took gradients.
        if not block.recording.outputs:
            return False
        if self.recording is not None:
            return True
        self.recording = block.recording
        return False
