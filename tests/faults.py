"""Faults of ours, as they are tried: one function raises an error the first time that it is called."""

import sys
from pathlib import Path

import backprobe as bp

SOURCE = Path(bp.__file__).parent
BEGIN = {"Rerun.observed", "Rerun.experimented", "Rerun.tried", "ScriptExperiments.safely"}
"""What a report is given to, to be tried: what these call may fail."""


class Fault(RuntimeError):
    """What a fault of ours may raise."""


class Faults:
    """Raises a ``Fault`` at the first call of one function in some files; without one, notes which are called."""

    def __init__(self, parts, name=None):
        self.files = tuple(str(SOURCE / part) for part in parts)
        self.name, self.called, self.has_begun, self.has_raised = name, {}, False, False

    def __call__(self, frame, event, argument):
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self.files):
            return
        if code.co_qualname in BEGIN:
            self.has_begun = True
        elif self.has_begun and not code.co_name.startswith("<"):
            name = f"{Path(code.co_filename).relative_to(SOURCE)}: {code.co_qualname}"
            self.called[name] = None
            if name == self.name and not self.has_raised:
                self.has_raised = True
                raise Fault("of ours")

    def during(self, act):
        sys.settrace(self)
        try:
            return act()
        finally:
            sys.settrace(None)
