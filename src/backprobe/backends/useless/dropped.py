"""Results of operations that no name keeps, found by the instruction of the program's own code that ran each."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from backprobe.backends.call_sites import Instruction, site_at, source_of
from backprobe.backends.result_uses import dropping
from backprobe.backends.useless import DROPPED, of_operation
from backprobe.record.reasons import Note
from backprobe.source.user_code import package


def dropped_by(running: Iterable[Instruction], home: Collection[str]) -> Instruction | None:
    """Of the running instructions, the innermost first, the one in the program's own code, if it drops its result.

    None if a package other than those of ``home`` is in between: it may be called for its other effects.
    """
    for code, at in running:
        by = package(code.co_filename)
        if by is None:
            return (code, at) if at in dropping(code) else None
        if by not in home:
            return None
    return None


def notes_on_dropped(instructions: Iterable[Instruction]) -> Iterator[Note]:
    """A note on each statement that drops the result of an operation."""
    for code, at in dict.fromkeys(instructions):
        site = site_at(code, at, ast.expr)
        if site is not None:
            place = source_of(code.co_filename, site.statement)
            yield of_operation(DROPPED, place, call=f"`{ast.unparse(site.node)}`")
