"""The gradient of any value inside a computation, by name."""

from backprobe.check import Check, CheckReport, WrongDerivative, check
from backprobe.derivatives import hvp, jacobian
from backprobe.derive import Derivation, derive
from backprobe.draw import Drawing, draw
from backprobe.errors import (
    AmbiguousName,
    BackprobeError,
    BadName,
    BadOption,
    BadOutput,
    BadRecording,
    NoBackend,
    NoGradient,
    NoSource,
    NothingMatched,
    NothingToDifferentiate,
    NotSaved,
    Overwritten,
    StaleSource,
    StrategyRefused,
    UnknownName,
    Unsupported,
)
from backprobe.explain import explain
from backprobe.findings.report import Finding, Report
from backprobe.health import health
from backprobe.probe import probe
from backprobe.probe.probe_class import Probe
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.inputs import Edge, IndirectInput, PathSums, Read
from backprobe.record.nonfinite import BackwardOp, Finiteness, Nonfinite
from backprobe.record.source import Source
from backprobe.record.stamp import Stamp, stamp
from backprobe.recording import Recording, load

__version__ = "0.1.0"

__all__ = [
    "AmbiguousName",
    "BackprobeError",
    "BackwardOp",
    "BadName",
    "BadOption",
    "BadOutput",
    "BadRecording",
    "Check",
    "CheckReport",
    "Derivation",
    "Drawing",
    "Edge",
    "Entry",
    "Finding",
    "Finiteness",
    "GradStatus",
    "IndirectInput",
    "NoBackend",
    "NoGradient",
    "NoSource",
    "Nonfinite",
    "NotSaved",
    "NothingMatched",
    "NothingToDifferentiate",
    "Overwritten",
    "PathSums",
    "Probe",
    "Read",
    "Recording",
    "Report",
    "Source",
    "StaleSource",
    "Stamp",
    "StrategyRefused",
    "UnknownName",
    "Unsupported",
    "WrongDerivative",
    "check",
    "derive",
    "draw",
    "explain",
    "health",
    "hvp",
    "jacobian",
    "load",
    "probe",
    "stamp",
]


def load_ipython_extension(shell: object) -> None:
    """What ``%load_ext backprobe`` calls; IPython is imported only now."""
    from backprobe import notebook

    notebook.load_ipython_extension(shell)


def unload_ipython_extension(shell: object) -> None:
    """What ``%unload_ext backprobe`` calls."""
    from backprobe import notebook

    notebook.unload_ipython_extension(shell)
