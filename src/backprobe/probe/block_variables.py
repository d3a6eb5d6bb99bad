"""The variable of a block that is differentiated, where the program does not run backward itself."""

from __future__ import annotations

from types import FrameType
from typing import Any

from backprobe.backends.capabilities import Differentiator
from backprobe.backends.tensors import Tensors
from backprobe.errors import NothingToDifferentiate
from backprobe.probe.output import Output, Words, choose
from backprobe.probe.request import Request
from backprobe.source.frames import UNKNOWN, name_in

IN_BLOCK = Words(
    "the block", "a last line that makes a scalar of it, loss = ...", "a last line that makes it real, loss = abs(...)"
)


class Variables(dict[str, Any]):
    """The variables that a block leaves behind, in place of a return value."""


def computed_in(frame: FrameType, tape: Tensors, differentiator: Differentiator) -> Variables:
    """The variables that hold floating tensors which the block has computed, in the order in which it did."""
    variables = frame.f_locals
    made = {
        name: differentiator.made(value)
        for name, value in variables.items()
        if tape.is_tensor(value) and tape.is_floating(value)
    }
    return Variables({name: variables[name] for name in sorted(made, key=made.__getitem__) if made[name]})


def output_of(frame: FrameType, computed: Variables, probe: Request, tape: Tensors, asked: str) -> Output:
    """The variable that ``of`` names, or a part of it; else the one that holds what was computed last.

    Raises BadOutput or NothingToDifferentiate.
    """
    if probe.of is None and not computed:
        raise NothingToDifferentiate(
            "the block computes nothing that can be differentiated", asked=asked,
            found="no variable that holds a floating tensor made in the block",
            why="gradients are of a value that the block leaves in a variable, with respect to what it reads",
            next="loss = ..., in the block, from its Variables or from the tensors that it reads",
        )  # fmt: skip
    of = next(reversed(computed)) if probe.of is None else str(probe.of)
    name = of.partition(".")[0]
    value = name_in(frame, name)
    held = computed if value is UNKNOWN else Variables({**computed, name: value})
    return choose(held, of, probe.cotangent, tape, IN_BLOCK)
