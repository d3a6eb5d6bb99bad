"""Finds results of operations that no variable keeps, by the instruction of the program's own code that ran each
operation.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from backprobe.backends.call_sites import Instruction, site_at, source_of
from backprobe.backends.result_uses import dropping
from backprobe.backends.useless import DROPPED, of_operation
from backprobe.record.reasons import Note
from backprobe.source.user_code import package


def dropped_by(running: Iterable[Instruction], home: Collection[str]) -> Instruction | None:
    """Return the innermost running instruction of the program's own code if it discards its result; else None.

    Return None if code of a package outside ``home`` runs in between, because it may be called for its side effects.
    """
    for code, at in running:
        by = package(code.co_filename)
        if by is None:
            return (code, at) if at in dropping(code) else None
        if by not in home:
            return None
    return None


def notes_on_dropped(instructions: Iterable[Instruction]) -> Iterator[Note]:
    """Yield a note on each statement that discards the result of an operation, if its source is available."""
    for code, at in dict.fromkeys(instructions):
        site = site_at(code, at, ast.expr)
        if site is not None:
            place = source_of(code.co_filename, site.statement)
            yield of_operation(DROPPED, place, call=f"`{ast.unparse(site.node)}`")
