"""Shrinks an input that breaks the program: brings it nearer to the example while the program still breaks."""

from __future__ import annotations

from typing import Any

import numpy

from backprobe.provoke.program import Look, TriedProgram
from backprobe.provoke.risks import Risk

Array = Any
HALVINGS = 10
DECIMALS = 4
LONGER = 1.05
MOST = 24  # the most trials in which some numbers are restored


def smaller(program: TriedProgram, risk: Risk, found: Look) -> Look:
    """A run that still breaks, on an input nearer to the example. Where possible, numbers are those of the example, and
    the others are rounded.
    """
    found = _nearer(program, risk, found)
    found = _fewer(program, risk, found)
    found = _nearer(program, risk, found)
    return _shorter(program, risk, found)


def _breaks(program: TriedProgram, risk: Risk, row: Array, found: Look) -> Look | None:
    # Run the program on a row. Return the result if the program breaks, and the operand is no further from its end than
    # in ``found``; otherwise None.
    look = program.look(risk, row, only_broken=True)
    return look if look is not None and look.margin <= max(0.0, found.margin) else None


def _nearer(program: TriedProgram, risk: Risk, found: Look) -> Look:
    # Bisect between the example and the input.
    example, away = program.inputs.example, found.row - program.inputs.example
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        row = program.inputs.rounded(example + middle * away)
        if numpy.array_equal(row, found.row) or numpy.array_equal(row, example):
            break
        look = _breaks(program, risk, row, found)
        if look is None:
            low = middle
        else:
            high, found = middle, look
    return found


def _shorter(program: TriedProgram, risk: Risk, found: Look) -> Look:
    # Round the changed numbers to the fewest decimals with which the program still breaks, if this hardly moves the
    # input away from the example.
    example = program.inputs.example
    most = LONGER * numpy.abs(found.row - example).max()
    for decimals in range(DECIMALS):
        short = numpy.where(found.row != example, numpy.round(found.row, decimals) + 0.0, example)
        row = program.inputs.rounded(short)
        if numpy.abs(row - example).max() <= most:
            look = _breaks(program, risk, row, found)
            if look is not None:
                return look
    return found


def _fewer(program: TriedProgram, risk: Risk, found: Look) -> Look:
    # Restore the numbers of whole arguments, and then of ever smaller parts of the changes.
    example, left = program.inputs.example, MOST
    parts = [numpy.arange(one.span.start, one.span.stop) for one in program.inputs.variables]
    while parts and left > 0:
        next_parts = []
        for part in parts:
            changed = part[found.row[part] != example[part]]
            if not changed.size or changed.size == numpy.count_nonzero(found.row != example):
                next_parts += numpy.array_split(changed, 2) if changed.size > 1 else []
                continue
            row = found.row.copy()
            row[changed] = example[changed]
            look = _breaks(program, risk, row, found) if left > 0 else None
            left -= 1
            if look is not None:
                found = look
            elif changed.size > 1:
                next_parts += numpy.array_split(changed, 2)
        parts = next_parts
    return found
