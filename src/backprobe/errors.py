"""The whole exception tree. Every message says what was asked, what was found, why, and what to type next."""

from __future__ import annotations


class BackprobeError(Exception):
    """Root of every error that backprobe raises by itself.

    ``asked``, ``found``, ``why`` and ``next`` hold the four parts of the message, for programs that read them.
    """

    def __init__(self, headline: str, *, asked: str = "", found: str = "", why: str = "", next: str = "") -> None:
        super().__init__(headline)
        self.headline = headline
        self.asked, self.found, self.why, self.next = asked, found, why, next

    def __str__(self) -> str:
        parts = (("asked", self.asked), ("found", self.found), ("why", self.why), ("next", self.next))
        lines = [self.headline]
        for label, text in parts:
            if text:
                first, *rest = text.splitlines()
                lines.append(f"  {label + ':':<7}{first}")
                lines += [" " * 9 + line for line in rest]
        return "\n".join(lines)


class BadName(BackprobeError, ValueError):
    """A name or pattern that the grammar does not allow."""


class UnknownName(BackprobeError, KeyError):
    """No value of the recording has this name."""

    __str__ = BackprobeError.__str__  # KeyError would show the repr of the message, on one line


class AmbiguousName(BackprobeError, LookupError):
    """Several values answer to this name."""


class NothingMatched(BackprobeError, LookupError):
    """A pattern that selects nothing."""


class NoGradient(BackprobeError, RuntimeError):
    """The gradient of an entry was read, and there is none: the status and its reason say why."""


class Overwritten(BackprobeError, RuntimeError):
    """The value of an entry was read, and it was overwritten in place where no copy could be taken before."""


class NoSource(BackprobeError, TypeError):
    """The source text of a function is needed for its names and cannot be had."""


class StaleSource(NoSource):
    """The source text on disk is no longer the one that the running function was compiled from."""


class NoBackend(BackprobeError, TypeError):
    """Neither the arguments nor the imported frameworks tell which framework computes."""


class NothingToDifferentiate(BackprobeError, TypeError):
    """No argument is floating point, or the output depends on none that is differentiated."""


class BadOutput(BackprobeError, ValueError):
    """What should be differentiated cannot be: not a scalar, several outputs, a path that is not there."""


class BadOption(BackprobeError, ValueError):
    """An option of ``probe`` with a value that it does not take."""


class StrategyRefused(BackprobeError, RuntimeError):
    """A strategy that would be silently wrong for this program."""


class Unsupported(BackprobeError, RuntimeError):
    """A program that this form of ``probe`` cannot see into rightly: compiled, distributed, recomputed."""


class BadRecording(BackprobeError, ValueError):
    """A folder that is not a recording, or is a damaged or a newer one."""


class NotSaved(BackprobeError, RuntimeError):
    """Something that a recording had while it was made and that was not, or could not be, saved."""
