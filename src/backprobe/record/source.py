"""The line of code that gave a value its name."""

from __future__ import annotations

from dataclasses import dataclass

from backprobe.markup import facts, shown
from backprobe.record.brief import path, place


def expression_of(source: Source | None) -> str:
    """The expression of a source; empty if there is none."""
    return "" if source is None else source.expression


def place_of(source: Source | None) -> tuple[str, int] | None:
    """The file and line of a source; None if there is none."""
    return None if source is None else (source.file, source.line)


@dataclass(frozen=True, repr=False)
class Source:
    """The place that gave a value its name: file, line (from 1), text of the line, and the expression that computes the
    value.

    The expression is empty if no expression computes exactly this value, as for an argument or a part of a returned
    tuple. ``calls`` are the functions that the expression called, in order: ``torch.relu``, made of the library and the
    function's own name, or an empty string for a function of the program that was followed. For a sequence of layers
    the last layer is added: ``torch.Sequential.Sigmoid``. ``below`` are the following lines of a statement over several
    lines.
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

    def __str__(self) -> str:
        return f"{path(self.file, self.line)}: {self.statement.strip()}"

    def _repr_html_(self) -> str:
        return shown(facts(path(self.file, self.line), [("line", self.statement)]))

    def __repr__(self) -> str:
        return f"<Source {place(self.file, self.line)}: {' '.join(self.text.split())}>"
