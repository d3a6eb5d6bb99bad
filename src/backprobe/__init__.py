"""The gradient of any value inside a computation, by name."""

import importlib.util
import sys
import types
import typing

if typing.TYPE_CHECKING:
    from backprobe.attribute import Attribution, attribute
    from backprobe.charts.report import RunReport
    from backprobe.check import CheckReport, WrongDerivative, check
    from backprobe.conflicts import Conflict, Conflicts
    from backprobe.curvature import Curvature, curvature
    from backprobe.derivatives import hvp, jacobian
    from backprobe.derive import Derivation, derive
    from backprobe.diff import DiffReport, Divergence, RunDiffReport, RunDivergence, diff
    from backprobe.diff_live import diff_live
    from backprobe.draw import Drawing, draw
    from backprobe.errors import (
        AmbiguousName,
        BackprobeError,
        BadName,
        BadOption,
        BadOutput,
        BadRecording,
        BadRun,
        NoBackend,
        NoGradient,
        NoSource,
        NotFinite,
        NothingMatched,
        NothingToDifferentiate,
        NotInstalled,
        NotSaved,
        Overwritten,
        RemovedName,
        StaleSource,
        StrategyRefused,
        UnknownAttribute,
        UnknownName,
        UnknownStep,
        Unsupported,
        WorkerLost,
    )
    from backprobe.explain import explain
    from backprobe.findings.report import Finding, Report
    from backprobe.guard import Guard, guard
    from backprobe.health import health
    from backprobe.memory import Held, MemoryReport, memory
    from backprobe.names import Names, names
    from backprobe.noise_floor import NoiseFloor, noise_floor
    from backprobe.per_sample import PerSample, per_sample
    from backprobe.probe import probe
    from backprobe.probe.probe_class import Probe
    from backprobe.provoke import Provocation, Provocations, provoke
    from backprobe.record.entries import Entry, GradStatus
    from backprobe.record.inputs import Edge, IndirectInput, PathSums, Read
    from backprobe.record.nonfinite import BackwardOp, Finiteness, Nonfinite
    from backprobe.record.passes import Pass
    from backprobe.record.source import Source
    from backprobe.record.stamp import Stamp, stamp
    from backprobe.recording import Recording, load
    from backprobe.replay import ReplayReport, replay
    from backprobe.rules import Alert, Gap
    from backprobe.runs import Histogram, Run, Step, open_run
    from backprobe.sweep import Sweep, sweep
    from backprobe.view import Viewer, view
    from backprobe.watch import Pace, Watch, watch, watch_function

__version__ = "0.2.0"

__all__ = [
    "Alert",
    "AmbiguousName",
    "Attribution",
    "BackprobeError",
    "BackwardOp",
    "BadName",
    "BadOption",
    "BadOutput",
    "BadRecording",
    "BadRun",
    "CheckReport",
    "Conflict",
    "Conflicts",
    "Curvature",
    "Derivation",
    "DiffReport",
    "Divergence",
    "Drawing",
    "Edge",
    "Entry",
    "Finding",
    "Finiteness",
    "Gap",
    "GradStatus",
    "Guard",
    "Held",
    "Histogram",
    "IndirectInput",
    "MemoryReport",
    "Names",
    "NoBackend",
    "NoGradient",
    "NoSource",
    "NoiseFloor",
    "Nonfinite",
    "NotFinite",
    "NotInstalled",
    "NotSaved",
    "NothingMatched",
    "NothingToDifferentiate",
    "Overwritten",
    "Pace",
    "Pass",
    "PathSums",
    "PerSample",
    "Probe",
    "Provocation",
    "Provocations",
    "Read",
    "Recording",
    "RemovedName",
    "ReplayReport",
    "Report",
    "Run",
    "RunDiffReport",
    "RunDivergence",
    "RunReport",
    "Source",
    "StaleSource",
    "Stamp",
    "Step",
    "StrategyRefused",
    "Sweep",
    "UnknownAttribute",
    "UnknownName",
    "UnknownStep",
    "Unsupported",
    "Viewer",
    "Watch",
    "WorkerLost",
    "WrongDerivative",
    "attribute",
    "check",
    "curvature",
    "derive",
    "diff",
    "diff_live",
    "draw",
    "explain",
    "guard",
    "health",
    "hvp",
    "jacobian",
    "load",
    "memory",
    "names",
    "noise_floor",
    "open_run",
    "per_sample",
    "probe",
    "provoke",
    "replay",
    "stamp",
    "sweep",
    "view",
    "watch",
    "watch_function",
]


_HOMES = {  # from each module to its public names, which are imported on first access
    "attribute": "Attribution attribute",
    "charts.report": "RunReport",
    "check": "CheckReport WrongDerivative check",
    "conflicts": "Conflict Conflicts",
    "curvature": "Curvature curvature",
    "derivatives": "hvp jacobian",
    "derive": "Derivation derive",
    "diff": "DiffReport Divergence RunDiffReport RunDivergence diff",
    "diff_live": "diff_live",
    "draw": "Drawing draw",
    "errors": (
        "AmbiguousName BackprobeError BadName BadOption BadOutput BadRecording BadRun NoBackend NoGradient "
        "NoSource NotFinite NothingMatched NothingToDifferentiate NotInstalled NotSaved Overwritten RemovedName "
        "StaleSource StrategyRefused UnknownAttribute UnknownName UnknownStep Unsupported WorkerLost"
    ),
    "explain": "explain",
    "findings.report": "Finding Report",
    "guard": "Guard guard",
    "health": "health",
    "memory": "Held MemoryReport memory",
    "names": "Names names",
    "noise_floor": "NoiseFloor noise_floor",
    "per_sample": "PerSample per_sample",
    "probe": "probe",
    "probe.probe_class": "Probe",
    "provoke": "Provocation Provocations provoke",
    "record.entries": "Entry GradStatus",
    "record.inputs": "Edge IndirectInput PathSums Read",
    "record.nonfinite": "BackwardOp Finiteness Nonfinite",
    "record.passes": "Pass",
    "record.source": "Source",
    "record.stamp": "Stamp stamp",
    "recording": "Recording load",
    "replay": "ReplayReport replay",
    "rules": "Alert Gap",
    "runs": "Histogram Run Step open_run",
    "sweep": "Sweep sweep",
    "view": "Viewer view",
    "watch": "Pace Watch watch watch_function",
}
_HOME = {name: f"{__name__}.{module}" for module, names in _HOMES.items() for name in names.split()}
_REMOVED = {  # names that were removed since version 0.1, each with its replacement
    "Check": "CheckReport",
    "DiffRuns": "DiffReport",
    "NoiseRuns": "NoiseFloor",
    "Provoke": "Provocations",
    "SweepRuns": "Sweep",
}


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if not typing.TYPE_CHECKING:  # type checkers do not see this function, because it would give every name a type

    def __getattr__(name):
        if name in _HOME:
            found = getattr(importlib.import_module(_HOME[name]), name)
            setattr(sys.modules[__name__], name, found)
            return found
        if name[:1] != "_" and importlib.util.find_spec(f"{__name__}.{name}"):
            # a submodule, returned as if it had been imported already
            return importlib.import_module(f"{__name__}.{name}")
        if name not in _REMOVED:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        from backprobe.errors import RemovedName, UnknownAttribute

        # In ``from backprobe import name`` raise RemovedName, because Python would replace an AttributeError's message
        # by its own.
        is_import = sys._getframe(1).f_globals.get("__name__") == "importlib._bootstrap"
        raise (RemovedName if is_import else UnknownAttribute)(
            f"bp.{name} is no longer public",
            asked=f"bp.{name}",
            why="it only waits for a call",
            next=f"bp.{_REMOVED[name]}, which the call returns",
        )


class _Package(types.ModuleType):
    """The class of the package. It keeps ``check`` and similar attributes as verbs.

    Python would otherwise replace them by the submodules of the same name when these are imported.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def load_ipython_extension(shell: object) -> None:
    """Load the extension, called by ``%load_ext backprobe``. IPython is imported only now."""
    from backprobe import notebook

    notebook.load_ipython_extension(shell)


def unload_ipython_extension(shell: object) -> None:
    """Unload the extension, called by ``%unload_ext backprobe``."""
    from backprobe import notebook

    notebook.unload_ipython_extension(shell)
