"""All exceptions, as one tree. Every message says what was asked, what was found, why, and what to type next.

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
    │   └── NotRecorded (AttributeError)         an attribute that an option would have recorded
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
    """Return texts with labels below a headline. Continuation lines are aligned, and empty texts are left out.

    >>> labelled([("found", ""), ("next", "either this;\\nor that")])
    ['  next:  either this;\\n         or that']
    """
    return [f"  {label + ':':<{width}}" + indented(text, width + 2) for label, text in parts if text]


def indented(text: str, by: int) -> str:
    """Indent all lines of a text except the first."""
    return text.replace("\n", "\n" + " " * by)


def _is_meant(raised: Any) -> bool:
    # Did backprobe raise this error on purpose? Only then pytest hides the frame: a bug inside backprobe should show
    # all frames.
    return isinstance(raised.value, BackprobeError)


class BackprobeError(Exception):
    """Base of every error that backprobe raises.

    ``asked``, ``found``, ``why`` and ``next`` hold the four parts of the message.
    """

    # without this mark, Keras would replace an error raised inside a layer's call by an error without the four parts
    _keras_call_info_injected = True

    def __init__(self, headline: str, *, asked: str = "", found: str = "", why: str = "", next: str = "") -> None:
        super().__init__(headline)
        self.headline = headline
        self.asked, self.found, self.why, self.next = asked, found, why, next
        frame: FrameType | None = sys._getframe(1)
        # hide these frames in pytest, so that it shows the line of the test that caused the error
        while frame is not None:
            if frame.f_globals.get("__name__", "").startswith("backprobe."):
                frame.f_globals["__tracebackhide__"] = _is_meant
            frame = frame.f_back

    def __str__(self) -> str:
        parts = (("asked", self.asked), ("found", self.found), ("why", self.why), ("next", self.next))
        return "\n".join([self.headline, *labelled(parts)])


class BadName(BackprobeError, ValueError):
    """The name or pattern does not follow the grammar."""


class UnknownName(BackprobeError, KeyError):
    """Nothing in the recording, run or result has this name."""

    __str__ = BackprobeError.__str__  # KeyError would show the repr of the message, on one line


class UnknownAttribute(BackprobeError, AttributeError):
    """A recording, a result or the package has no attribute of this name. Values are read in brackets: ``rec["u"]``."""


class AmbiguousName(BackprobeError, LookupError):
    """Several values match this name."""


class NothingMatched(BackprobeError, LookupError):
    """A pattern matches nothing."""


class NoGradient(BackprobeError, RuntimeError):
    """The gradient of an entry was read, but does not exist. The message gives its status and the reason."""


class Overwritten(BackprobeError, RuntimeError):
    """The value of an entry was read, but was overwritten in place before a copy could be made.

    Also raised for a value that could not be kept, such as one inside ``torch.func.grad``.
    """


class NotSaved(BackprobeError, RuntimeError):
    """Something cannot be saved, or a saved recording or copied result was asked for something that it does not
    contain.
    """


class NoSource(BackprobeError, TypeError):
    """The source text of a function is needed for its names, but is not available."""


class StaleSource(NoSource):
    """The source file has changed since the running function was compiled from it."""


class NoBackend(BackprobeError, TypeError):
    """The framework cannot be inferred from the arguments and imports, is not installed, or has no backend."""


class NothingToDifferentiate(BackprobeError, TypeError):
    """Nothing can be differentiated: for example, there is no floating argument, or the output depends on none.

    If the program computed values with a gradient history, but its output has none, ``recording`` is the recording of
    that run: ``bp.explain(error.recording)`` then shows where the history was cut off. Otherwise ``recording`` is None.
    """

    recording: Any = None


class NotFinite(BackprobeError, FloatingPointError):
    """NaN or Inf arose in a guarded program. ``report`` shows where it began, like ``bp.explain``."""

    def __init__(self, headline: str, report: Any) -> None:
        super().__init__(headline)
        self.report = report

    def __str__(self) -> str:
        return f"{self.headline}\n{self.report}"


class BadOutput(BackprobeError, ValueError):
    """The output cannot be differentiated: for example, it is not a scalar, or its path does not exist."""


class Unsupported(BackprobeError, RuntimeError):
    """The request cannot be met correctly for this program, framework or system, such as for a compiled program."""


class RemovedName(BackprobeError, ImportError):
    """A name was imported that backprobe no longer has. The message names the replacement."""


class BadOption(BackprobeError, ValueError):
    """An option or argument has a value that is not accepted, or an option is not available here."""


class NotRecorded(BadOption, AttributeError):
    """An attribute is missing because an option did not ask for it. So ``hasattr`` is False, and ``getattr`` gives its
    default.
    """


class NotInstalled(BackprobeError, ImportError):
    """A package that an optional part of backprobe needs is missing."""


def installed(name: str, *, asked: str, packages: str = "") -> Any:
    """Import a module of an optional package. Raises NotInstalled, whose message says which packages to install.

    ``packages`` are those packages if they differ from ``name``. The message never suggests ``backprobe[draw]``,
    because a registry may have another project named backprobe.
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
    """The strategy would give silently wrong results for this program."""


class BadRecording(BackprobeError, ValueError):
    """The folder is not a recording, or contains a damaged recording or one of a version that cannot be read."""


class BadRun(BackprobeError, ValueError):
    """The folder is not a run, contains a damaged run or one of another version, or another process is writing it."""


class UnknownStep(BackprobeError, KeyError):
    """The run has no step of this number. The message names the nearest steps."""

    __str__ = BackprobeError.__str__


class WorkerLost(BackprobeError, RuntimeError):
    """A worker of ``executor=`` died, and so did the worker that repeated its task."""
