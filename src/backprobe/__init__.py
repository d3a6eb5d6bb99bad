"""The gradient of any value inside a computation, by name."""

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
from backprobe.probe import Probe, load, probe
from backprobe.record import Edge, Entry, GradStatus, Source
from backprobe.recording import Recording

__version__ = "0.1.0"

__all__ = [
    "AmbiguousName",
    "BackprobeError",
    "BadName",
    "BadOption",
    "BadOutput",
    "BadRecording",
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
    "Probe",
    "Recording",
    "Source",
    "StaleSource",
    "Stamp",
    "StrategyRefused",
    "UnknownName",
    "Unsupported",
    "load",
    "probe",
    "stamp",
]
