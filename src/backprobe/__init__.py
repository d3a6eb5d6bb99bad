"""The gradient of any value inside a computation, by name."""

from backprobe.alerts import Alert, Gap
from backprobe.charts.report import RunReport
from backprobe.check import Check, CheckReport, WrongDerivative, check
from backprobe.conflicts import Conflict, Conflicts
from backprobe.derivatives import hvp, jacobian
from backprobe.derive import Derivation, derive
from backprobe.diff import DiffReport, Divergence, RunDiffReport, RunDivergence, diff
from backprobe.diff_live import DiffRuns, diff_live
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
    StaleSource,
    StrategyRefused,
    UnknownAttribute,
    UnknownName,
    UnknownStep,
    Unsupported,
)
from backprobe.explain import explain
from backprobe.findings.report import Finding, Report
from backprobe.guard import Guard, guard
from backprobe.health import health
from backprobe.names import Names, names
from backprobe.noise_floor import NoiseFloor, NoiseRuns, noise_floor
from backprobe.probe import probe
from backprobe.probe.probe_class import Probe
from backprobe.provoke import Provocation, Provocations, Provoke, provoke
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.inputs import Edge, IndirectInput, PathSums, Read
from backprobe.record.nonfinite import BackwardOp, Finiteness, Nonfinite
from backprobe.record.passes import Pass
from backprobe.record.source import Source
from backprobe.record.stamp import Stamp, stamp
from backprobe.recording import Recording, load
from backprobe.runs import Histogram, Run, Step, open_run
from backprobe.sweep import Sweep, SweepRuns, sweep
from backprobe.watch import Pace, Watch, watch, watch_function

__version__ = "0.1.0"

__all__ = [
    "Alert",
    "AmbiguousName",
    "BackprobeError",
    "BackwardOp",
    "BadName",
    "BadOption",
    "BadOutput",
    "BadRecording",
    "BadRun",
    "Check",
    "CheckReport",
    "Conflict",
    "Conflicts",
    "Derivation",
    "DiffReport",
    "DiffRuns",
    "Divergence",
    "Drawing",
    "Edge",
    "Entry",
    "Finding",
    "Finiteness",
    "Gap",
    "GradStatus",
    "Guard",
    "Histogram",
    "IndirectInput",
    "Names",
    "NoBackend",
    "NoGradient",
    "NoSource",
    "NoiseFloor",
    "NoiseRuns",
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
    "Probe",
    "Provocation",
    "Provocations",
    "Provoke",
    "Read",
    "Recording",
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
    "SweepRuns",
    "UnknownAttribute",
    "UnknownName",
    "UnknownStep",
    "Unsupported",
    "Watch",
    "WrongDerivative",
    "check",
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
    "names",
    "noise_floor",
    "open_run",
    "probe",
    "provoke",
    "stamp",
    "sweep",
    "watch",
    "watch_function",
]


def load_ipython_extension(shell: object) -> None:
    """What ``%load_ext backprobe`` calls; IPython is imported only now."""
    from backprobe import notebook

    notebook.load_ipython_extension(shell)


def unload_ipython_extension(shell: object) -> None:
    """What ``%unload_ext backprobe`` calls."""
    from backprobe import notebook

    notebook.unload_ipython_extension(shell)
