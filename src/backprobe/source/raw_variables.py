"""Variables that must not be read: Python 3.13.0 to 3.13.2 crash on them (github.com/python/cpython/issues/128396).

A comprehension that runs inside a frame uses the slot of the frame's variable with the same name as its loop variable.
If a function made in that frame captures the variable, the slot normally holds a cell, and ``f_locals`` mistakes the
comprehension's value for a cell. In modules and class bodies, any read of ``f_locals`` is enough for a crash.
"""

from __future__ import annotations

import dis
import sys
from functools import lru_cache
from types import CodeType, FrameType

from backprobe.source.bytecode import To, names_hidden, variables

CRASHES = (3, 13) <= sys.version_info < (3, 13, 3)
NONE: frozenset[str] = frozenset()


def raw_variables(frame: FrameType) -> frozenset[str]:
    """Return the variables of a frame that must not be read now."""
    if not CRASHES:
        return NONE
    return _within(frame, _captured_spans(frame.f_code))


def variables_of_comprehensions(frame: FrameType) -> frozenset[str]:
    """Return the variables whose slots are now used by comprehensions that run in the frame."""
    return _within(frame, _all_spans(frame.f_code))


Span = tuple[str, int, int]
"""A variable, and the offsets of the first and last instruction between which a comprehension uses the
variable's slot.
"""


def _within(frame: FrameType, spans: tuple[Span, ...]) -> frozenset[str]:
    return frozenset(name for name, first, last in spans if first < frame.f_lasti <= last) if spans else NONE


@lru_cache(4096)
def _captured_spans(code: CodeType) -> tuple[Span, ...]:
    # Return the spans in which a comprehension uses the slot of a captured variable, but does not itself capture its
    # variable.
    return _spans(code, names_hidden(code).intersection((*code.co_cellvars, *code.co_freevars)), without_captured=True)


@lru_cache(4096)
def _all_spans(code: CodeType) -> tuple[Span, ...]:
    return _spans(code, names_hidden(code))


def _spans(code: CodeType, at_risk: frozenset[str], *, without_captured: bool = False) -> tuple[Span, ...]:
    # Return the spans of these variables. The instruction that hides a variable has the position of the whole
    # comprehension in the source text. The instructions that restore the variable, at the end or after an error, have
    # the same position.
    if not at_risk:
        return ()
    instructions = list(dis.get_instructions(code))
    found = []
    for at, hiding in enumerate(instructions):
        for to, name in variables(hiding, code):
            if to is To.HIDE and name in at_risk and not (without_captured and _is_captured(name, instructions, at)):
                ends = [
                    one
                    for one in range(at + 1, len(instructions))
                    if instructions[one].positions == hiding.positions
                    and (To.STORE, name) in variables(instructions[one], code)
                ]
                if ends:
                    found.append((name, hiding.offset, instructions[ends[0]].offset))
                for end in ends[1:]:  # positions at which the variable is restored after an error
                    first = end
                    while instructions[first].positions == hiding.positions:
                        first -= 1
                    found.append((name, instructions[first].offset, instructions[end].offset))
    return tuple(found)


def _is_captured(name: str, instructions: list[dis.Instruction], at: int) -> bool:
    # Does the comprehension create a cell for its variable?
    for following in instructions[at + 1 :]:
        if following.opname not in ("LOAD_FAST_AND_CLEAR", "MAKE_CELL"):
            return False
        if following.opname == "MAKE_CELL" and following.argval == name:
            return True
    return False
