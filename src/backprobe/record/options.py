"""Options of verbs, each declared once, and the error for a value that an option does not accept."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any

from backprobe.errors import BadOption
from backprobe.record.brief import kind, written
from backprobe.record.names import nearest


@dataclass(frozen=True)
class Option:
    """An option: its name, the type of its values, the allowed values, and a value to suggest in messages."""

    name: str
    kind: type | UnionType = bool
    allowed: Any = None  # the least number, the allowed texts, or a test
    next: str = "True"
    or_none: bool = False
    says: str = ""  # replaces the standard description of the type
    why: str = ""

    def check(self, value: Any, asked: str = "") -> None:
        """Raise BadOption for a value that is not accepted. ``asked`` replaces ``name=value`` in the message."""
        if value is None and self.or_none:
            return
        fits = isinstance(value, self.kind)
        if fits and isinstance(self.allowed, int):
            fits = not isinstance(value, bool) and value >= self.allowed
        elif fits and self.allowed is not None:
            fits = self.allowed(value) if callable(self.allowed) else value in self.allowed
        if not fits:
            raise self.refused(value, asked)

    def refused(self, value: Any, asked: str = "") -> BadOption:
        """The error for a value that is not accepted."""
        text = written(value)
        is_shown = not asked and not callable(value) and text[:1] != "<"
        words = [one for one in self.allowed if isinstance(one, str)] if isinstance(self.allowed, tuple) else []
        meant = [repr(one) for one in nearest(value, words)[:1]] if isinstance(value, str) else []
        return BadOption(
            f"{self.name} is {self}",
            asked=asked or f"{self.name}={text}",
            found="" if is_shown else kind(value),
            why=self.why,
            next=f"{self.name}={meant[0] if meant else self.next}",
        )

    def __str__(self) -> str:
        if self.kind is int and not self.says:
            return f"a whole number from {self.allowed} on"
        return self.says or (f"one of {', '.join(map(str, self.allowed))}" if self.allowed else "True or False")


EXPERIMENTS = (
    Option("experiments"),
    Option("seconds", int | float, 0, "30.0", says="a number of seconds from 0 on"),
    Option("runs", int, 0, "40"),
)
"""The options of verbs that run a recorded program again: whether they may, how long its run may have taken, and how
often it may run.
"""


def check_options(given: Mapping[str, Any], options: Sequence[Option]) -> None:
    """Raise BadOption for the first value that its option does not accept."""
    for option in options:
        value, allowed = given[option.name], option.allowed
        if not (isinstance(value, option.kind) and (allowed is None or (type(allowed) is tuple and value in allowed))):
            option.check(value)  # called only if the quick test fails, since every block runs this


def check_texts(name: str, texts: Any, example: str = "'x'") -> None:
    """Raise BadOption unless ``texts`` is a text, or a sequence or set of texts."""
    if isinstance(texts, str):
        return
    is_list = isinstance(texts, Sequence | set | frozenset) and not isinstance(texts, bytes)
    for other in texts if is_list else [texts]:  # no generator, since every block runs this
        if not isinstance(other, str):
            raise BadOption(
                f"{name} is a text or a list of texts, not {'one with ' * is_list}{kind(other)}",
                asked=f"{name}={written(texts)}",
                next=f"{name}={example}",
            )


def check_folder(path: Any, headline: str, asked: str, instead: str) -> None:
    """Raise BadOption unless ``path`` is a text or path object that is not empty and does not contain NUL."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path) or "\0" in str(path):
        found = "no text" if path == "" else "the character NUL in it" if "\0" in str(path) else kind(path)
        raise BadOption(headline, asked=asked, found=found, next=instead)
