"""Errors of backward in a block. The facts about each error are collected when it is raised, because the program may
catch the error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backprobe.probe.error_notes import FailingRun, explained, raised
from backprobe.record.reasons import Reason
from backprobe.record.source import Source

Key = tuple[str, str]
"""The message of an error, and the line that raised it."""


class CaughtErrors:
    """The errors of backward so far. The exceptions themselves are not kept: their tracebacks would keep tensors alive.

    No reference to the block is kept either: the block refers to this object, and a reference cycle would stay in
    memory until the next garbage collection.
    """

    def __init__(self) -> None:
        self.known: dict[Key, Reason] = {}
        self.graph_errors: set[Key] = set()

    def see(self, run: FailingRun, error: BaseException) -> None:
        """Called when an error of backward passes through a frame of the program."""
        key = _key(raised(error, ""))
        if key in self.known:
            return  # already reported, by an inner frame or in another iteration
        known = explained(run, error)
        self.known[key] = raised(error, (known or "").removeprefix("backprobe: "))
        if known or type(error) is RuntimeError:
            self.graph_errors.add(key)

    def what_is_known(self, run: FailingRun, error: BaseException) -> str | None:
        """Return the note on an error that ends the block; None if nothing is known. If backward raised the error, the
        note was made at that time.
        """
        seen = self.known.pop(_key(raised(error, "")), None)
        if seen is None:
            return explained(run, error)
        return f"backprobe: {seen.fields['known']}" if seen.fields["known"] else None

    def notes(self, cut_short: Sequence[Source | None], ending: BaseException | None) -> Iterator[Reason]:
        """Yield notes on errors of backward that the program caught: those that can be explained, those of the type
        RuntimeError, and those that cut a ``backward()`` short.

        If no error ends the block (``ending`` is None), also yield notes on other calls of backward() that did not
        finish.
        """
        places = set()
        for key, seen in self.known.items():
            places.add(seen.fields.get("at"))
            if key in self.graph_errors or any(_at(one) == seen.fields.get("at") for one in cut_short):
                yield Reason(seen.code.replace("raised", "caught"), seen.fields)
        for one in dict.fromkeys(cut_short if ending is None else ()):
            if one is not None and _at(one) not in places:
                yield Reason("cut_short_at", {"at": _at(one), "text": one.text.strip()})


def _key(reason: Reason) -> Key:
    return reason.fields["error"], reason.fields.get("at", "")


def _at(line: Source | None) -> str:
    return "" if line is None else f"{line.file}:{line.line}"
