"""Which variable of a block is differentiated, where the program does not run backward itself."""

from __future__ import annotations

from types import FrameType
from typing import Any

from backprobe.backends.base import BlockTape, Differentiator
from backprobe.errors import NothingToDifferentiate
from backprobe.output import Output, Words, choose
from backprobe.source.frames import UNKNOWN, name_in

IN_BLOCK = Words("the block", "a last line that makes a scalar of it, loss = ...")


class Variables(dict[str, Any]):
    """What a block leaves behind, in the place of a return value."""


def output_of(
    frame: FrameType, of: str | None, cotangent: Any, tape: BlockTape, differentiator: Differentiator
) -> Output:
    """The variable that ``of`` names, or a part of it; else the one that holds what was computed last.

    Raises BadOutput or NothingToDifferentiate.
    """
    computed = _computed(frame, tape, differentiator)
    if of is None and not computed:
        raise NothingToDifferentiate(
            "the block computes nothing that can be differentiated", asked="with bp.probe(...) as rec:",
            found="no variable that holds a floating tensor made in the block",
            why="a gradient is of a value that the block leaves in a variable, and towards what it read",
            next="loss = ..., in the block, from its Variables or from the tensors that it reads",
        )  # fmt: skip
    of = next(reversed(computed)) if of is None else of
    asked = of.partition(".")[0]
    value = name_in(frame, asked)
    held = Variables(computed if value is UNKNOWN else computed | {asked: value})
    return choose(held, of, cotangent, tape, IN_BLOCK)


def _computed(frame: FrameType, tape: BlockTape, differentiator: Differentiator) -> dict[str, Any]:
    """The variables that hold floating tensors which the block has computed, in the order in which it did."""
    made = {
        name: differentiator.made(value)
        for name, value in frame.f_locals.items()
        if tape.is_tensor(value) and tape.is_floating(value)
    }
    return {name: frame.f_locals[name] for name in sorted(made, key=made.__getitem__) if made[name]}
