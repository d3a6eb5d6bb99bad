"""The line of code where a value got its name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """The place where a value got its name: file, line (from 1), its text, and the expression that computes the value.

    The expression is empty where none computes exactly this value, as for an argument or a part of a returned tuple.
    ``calls`` are the functions that it called, in the order in which it came to them: ``torch.relu``, by the library
    and the function's own name, and an empty string for a function of the program that was followed.
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
        """The whole statement, or the head of a compound statement."""
        return "\n".join((self.text, *self.below))
