"""The line of a program where a value got its name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Where a value got its name: file, line (from 1), the text of that line, and the expression that computes it.

    The expression is empty where none stands for exactly this value: an argument, one part of what a call returned.
    ``calls`` are the functions that it called, in the order in which it came to them: ``torch.relu``, by the library
    and the function's own name, and an empty text for a function of the user's that was followed.
    ``below`` are the lines that follow, where the statement goes over several.
    """

    file: str
    line: int
    text: str
    expression: str = ""
    calls: tuple[str, ...] = ()
    below: tuple[str, ...] = ()

    @property
    def statement(self) -> str:
        """The whole statement, or of one that has a body the head."""
        return "\n".join((self.text, *self.below))
