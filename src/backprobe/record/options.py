"""Options of verbs, each declared once, and the refusal of a value that an option does not take."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any

from backprobe.errors import BadOption
from backprobe.record.brief import kind, written


@dataclass(frozen=True)
class Option:
    """An option: its name, the kind of its values, which of them are allowed, and one to type instead."""

    name: str
    kind: type | UnionType = bool
    allowed: Any = None  # the least number, or every text
    next: str = "True"
    or_none: bool = False
    says: str = ""  # in place of what is said of its kind

    def check(self, value: Any) -> None:
        """Raise BadOption for a value that the option does not take."""
        check_options({self.name: value}, (self,))

    def __str__(self) -> str:
        if self.kind is int:
            return f"a whole number from {self.allowed} on"
        return self.says or (f"one of {', '.join(map(str, self.allowed))}" if self.allowed else "True or False")


def check_options(given: Mapping[str, Any], options: Sequence[Option]) -> None:
    """Raise BadOption for the first value that its option does not take."""
    for option in options:  # without calls, since each block comes by here
        value, allowed = given[option.name], option.allowed
        if not isinstance(value, option.kind):
            fits = option.or_none and value is None
        elif isinstance(allowed, int) and isinstance(value, int | float):
            fits = not isinstance(value, bool) and value >= allowed
        else:
            fits = allowed is None or value in allowed
        if not fits:
            raise BadOption(
                f"{option.name} is {option}", asked=f"{option.name}={written(value)}",
                next=f"{option.name}={option.next}",
            )  # fmt: skip


def check_texts(name: str, texts: Any, example: str = "'x'") -> None:
    """Raise BadOption for what is neither a text nor a list of texts."""
    if isinstance(texts, str):
        return
    is_list = isinstance(texts, Sequence | set | frozenset) and not isinstance(texts, bytes)
    for other in texts if is_list else [texts]:  # no generator, since each block comes by here
        if not isinstance(other, str):
            raise BadOption(
                f"{name} is a text or a list of texts, not {'one with ' * is_list}{kind(other)}",
                asked=f"{name}={written(texts)}", next=f"{name}={example}",
            )  # fmt: skip


def check_folder(path: Any, headline: str, asked: str, instead: str) -> None:
    """Raise BadOption for what is not the path of a file or folder."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path) or "\0" in str(path):
        found = "no text" if path == "" else "the character NUL in it" if "\0" in str(path) else kind(path)
        raise BadOption(headline, asked=asked, found=found, next=instead)
