"""The gradient of any value inside a computation, by name."""

from backprobe.draw import Drawing, draw
from backprobe.environment import Stamp, stamp
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
from backprobe.jacobian import hvp, jacobian
from backprobe.probe import Probe, load, probe
from backprobe.record import Edge, Entry, GradStatus, PathSums, Read, Source
from backprobe.recording import Recording

__version__ = "0.1.0"

__all__ = [
    "AmbiguousName",
    "BackprobeError",
    "BadName",
    "BadOption",
    "BadOutput",
    "BadRecording",
    "Drawing",
    "Edge",
    "Entry",
    "GradStatus",
    "NoBackend",
    "NoGradient",
    "NoSource",
    "NotSaved",
    "NothingMatched",
    "NothingToDifferentiate",
    "Overwritten",
    "PathSums",
    "Probe",
    "Read",
    "Recording",
    "Source",
    "StaleSource",
    "Stamp",
    "StrategyRefused",
    "UnknownName",
    "Unsupported",
    "draw",
    "hvp",
    "jacobian",
    "load",
    "probe",
    "stamp",
]
