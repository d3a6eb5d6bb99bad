"""The whole exception tree. Every message says what was asked, what was found, why, and what to type next.

    BackprobeError
    │ names
    ├── BadName (ValueError)                     not allowed by the grammar
    ├── UnknownName (KeyError)                   no value has this name
    ├── UnknownAttribute (AttributeError)        rec.u instead of rec["u"]
    ├── AmbiguousName (LookupError)              several values match it
    ├── NothingMatched (LookupError)             a pattern matches nothing
    │ entries
    ├── NoGradient (RuntimeError)                read, and there is none
    ├── Overwritten (RuntimeError)               the value was overwritten, or could not be kept
    ├── NotSaved (RuntimeError)                  not in a saved recording
    │ programs
    ├── NoSource (TypeError)                     the source of a function is not available
    │   └── StaleSource                          its file has changed since
    ├── NoBackend (TypeError)                    which framework?
    ├── NotFinite (FloatingPointError)           NaN or Inf in a guarded program
    ├── NothingToDifferentiate (TypeError)       no floating-point argument, or none that the output depends on
    ├── BadOutput (ValueError)                   not one scalar
    ├── Unsupported (RuntimeError)               a program that cannot be recorded correctly
    ├── RemovedName (ImportError)                a name of an older version
    │ options and files
    ├── BadOption (ValueError)                   a value that an option does not take
    ├── NotInstalled (ImportError)               a package that an optional part needs
    ├── StrategyRefused (RuntimeError)           a strategy that would be silently wrong
    ├── BadRecording (ValueError)                not a recording, or a damaged one
    │ runs
    ├── BadRun (ValueError)                      not a run, or one that another process is writing
    ├── UnknownStep (KeyError)                   a run has no step of this number
    │ executors
    └── WorkerLost (RuntimeError)                a worker died twice in the same task

Each is also the built-in error in parentheses.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from types import FrameType
from typing import Any


def labelled(parts: Iterable[tuple[str, str]], width: int = 7) -> list[str]:
    """Texts below a headline, each behind its label, later lines of one below its first; empty ones are left out.

    >>> labelled([("found", ""), ("next", "either this;\\nor that")])
    ['  next:  either this;\\n         or that']
    """
    return [f"  {label + ':':<{width}}" + indented(text, width + 2) for label, text in parts if text]


def indented(text: str, by: int) -> str:
    """A text whose lines after the first stand further to the right."""
    return text.replace("\n", "\n" + " " * by)


def _is_meant(raised: Any) -> bool:
    # Is what pytest shows one of our errors? A mistake of ours keeps every frame.
    return isinstance(raised.value, BackprobeError)


class BackprobeError(Exception):
    """Base of every error that backprobe raises.

    ``asked``, ``found``, ``why`` and ``next`` hold the four parts of the message.
    """

    _keras_call_info_injected = True  # else Keras, where one passes a layer's call, makes a new error without the parts

    def __init__(self, headline: str, *, asked: str = "", found: str = "", why: str = "", next: str = "") -> None:
        super().__init__(headline)
        self.headline = headline
        self.asked, self.found, self.why, self.next = asked, found, why, next
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:  # pytest then shows the test's own line, where it fails by an error that was meant
            if frame.f_globals.get("__name__", "").startswith("backprobe."):
                frame.f_globals["__tracebackhide__"] = _is_meant
            frame = frame.f_back

    def __str__(self) -> str:
        parts = (("asked", self.asked), ("found", self.found), ("why", self.why), ("next", self.next))
        return "\n".join([self.headline, *labelled(parts)])


class BadName(BackprobeError, ValueError):
    """A name or pattern that the grammar does not allow."""


class UnknownName(BackprobeError, KeyError):
    """No value in the recording has this name."""

    __str__ = BackprobeError.__str__  # KeyError would show the repr of the message, on one line


class UnknownAttribute(BackprobeError, AttributeError):
    """A recording or the package has no attribute of this name; values are in brackets: ``rec["u"]``."""


class AmbiguousName(BackprobeError, LookupError):
    """Several values match this name."""


class NothingMatched(BackprobeError, LookupError):
    """A pattern that matches nothing."""


class NoGradient(BackprobeError, RuntimeError):
    """The gradient of an entry was read, and it has none; the message gives its status and the reason."""


class Overwritten(BackprobeError, RuntimeError):
    """The value of an entry was read, but it was overwritten in place before a copy could be taken, or it
    could not be kept, as inside ``torch.func.grad``."""


class NotSaved(BackprobeError, RuntimeError):
    """Something was read that a saved recording does not hold, or that could not be saved."""


class NoSource(BackprobeError, TypeError):
    """The source text of a function is needed for its names and is not available."""


class StaleSource(NoSource):
    """The source text on disk is not the one that the running function was compiled from."""


class NoBackend(BackprobeError, TypeError):
    """The framework cannot be inferred from the arguments and imports, or is not installed."""


class NothingToDifferentiate(BackprobeError, TypeError):
    """No argument is floating point, or the output does not depend on any that is differentiated.

    Where a function or a model has computed values with a history, and its output has none, ``recording`` has what was
    recorded: ``bp.explain(error.recording)`` says what cuts them off. Otherwise it is None.
    """

    recording: Any = None


class NotFinite(BackprobeError, FloatingPointError):
    """NaN or Inf arose in a guarded program; ``report`` says where it began, as ``bp.explain`` does."""

    def __init__(self, headline: str, report: Any) -> None:
        super().__init__(headline)
        self.report = report

    def __str__(self) -> str:
        return f"{self.headline}\n{self.report}"


class BadOutput(BackprobeError, ValueError):
    """The output cannot be differentiated: it is not a scalar, there are several, or a path does not exist."""


class Unsupported(BackprobeError, RuntimeError):
    """A program that this form of ``probe`` cannot record correctly: compiled, distributed, recomputed."""


class RemovedName(BackprobeError, ImportError):
    """A name was imported that backprobe no longer has; the message names the one to use."""


class BadOption(BackprobeError, ValueError):
    """An option has a value that it does not take."""


class NotInstalled(BackprobeError, ImportError):
    """A package is missing that an optional part of backprobe needs."""


def installed(name: str, *, asked: str, packages: str = "") -> Any:
    """A module of an optional package. Raises NotInstalled, which says to install ``packages``, if it has another name.

    It names the packages of others, never ``backprobe[draw]``: a registry may have another project of our name.
    """
    try:
        return import_module(name)
    except ImportError as error:
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == name
        raise NotInstalled(
            f"{asked} needs {name}, which {'is not installed' if is_missing else 'cannot be imported'}",
            asked=asked,
            found=str(error),
            next=f"pip install {packages or name.partition('.')[0]}",
        ) from error


class StrategyRefused(BackprobeError, RuntimeError):
    """A strategy that would be silently wrong for this program."""


class BadRecording(BackprobeError, ValueError):
    """A folder that is not a recording, or holds a damaged or a newer one."""


class BadRun(BackprobeError, ValueError):
    """A folder that is not a run, holds a damaged one or one of another version, or is being written already."""


class UnknownStep(BackprobeError, KeyError):
    """A run has no step of this number; the message names the nearest."""

    __str__ = BackprobeError.__str__


class WorkerLost(BackprobeError, RuntimeError):
    """A worker of ``executor=`` died, and so did the one that did its task again."""
