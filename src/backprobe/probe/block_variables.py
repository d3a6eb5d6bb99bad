"""The variables of a block in which the probe runs backward, rather than the program."""

from __future__ import annotations

import re
from types import FrameType
from typing import Any

from backprobe.backends.capabilities import Differentiator
from backprobe.backends.protocol import BlockTape
from backprobe.backends.tensors import Tensors
from backprobe.errors import BackprobeError, BadOutput, NothingToDifferentiate
from backprobe.probe.inner_output import named_output
from backprobe.probe.output import ProbedOutput, Words, choose
from backprobe.probe.request import Request
from backprobe.probe.several_outputs import AskedOutput
from backprobe.record.quoted_errors import said_by
from backprobe.record.reasons import Reason
from backprobe.source.frames import UNKNOWN, name_in
from backprobe.tracing.trace import Trace

SCALAR, REAL = "a last line that makes a scalar of it, loss = ...", "a last line that makes it real, loss = abs(...)"

IN_GRAPH = "it builds a graph, whose values have numbers in a session alone"
BY_SESSION = "bp.probe(loss, session=session)({placeholder: value}), of a tensor of that graph and what is fed to it"
COMPILED = "it ran compiled, as a whole, and left no variable to differentiate"
UNCOMPILED = "tf.config.run_functions_eagerly(True) before it: then the lines of the function are recorded"
EAGERLY = "model.compile(..., run_eagerly=True) before fit: then its layers and its loss are recorded"


class Variables(dict[str, Any]):
    """The variables that exist after a block. The probe uses them as a function's return value."""


def computed_in(frame: FrameType, tape: Tensors, differentiator: Differentiator) -> Variables:
    """Return the variables that hold floating-point tensors computed in the block, in the order of computation."""
    variables = frame.f_locals
    made = {
        name: differentiator.made(value)
        for name, value in variables.items()
        if tape.is_tensor(value) and tape.is_floating(value)
    }
    return Variables({name: variables[name] for name in sorted(made, key=made.__getitem__) if made[name]})


def outputs_of(
    frame: FrameType, differentiator: Differentiator, probe: Request, trace: Trace, asked: str, framework: str
) -> list[ProbedOutput]:
    """Return the outputs of a block: the values that ``of`` names, or else the variable that was computed last. With
    neither ``of`` nor a cotangent, variables that the program itself differentiated come first.

    If no variable qualifies then, as around ``model.fit``, all values that the program differentiated are returned.
    Raises BadOutput or NothingToDifferentiate.
    """
    computed = computed_in(frame, trace.tape, differentiator)
    is_open = probe.of is None and probe.cotangent is None
    asked_for = differentiator.targets_of([*computed.values()]) if computed and is_open else ()
    if asked_for:
        held = {id(tensor): f".{name}" for name, tensor in computed.items()}
        return [ProbedOutput(tensor, held.get(id(tensor)), None) for tensor in asked_for]
    try:
        return [_output_of(frame, computed, one, trace, asked, framework) for one in probe.asked]
    except (BadOutput, NothingToDifferentiate):
        own = differentiator.targets() if is_open else ()
        if not own:
            raise
        return [ProbedOutput(tensor, None, None) for tensor in own]


def _output_of(
    frame: FrameType, computed: Variables, one: AskedOutput, trace: Trace, asked: str, framework: str
) -> ProbedOutput:
    words = Words("the block", SCALAR, REAL, framework, one.key)
    if one.of is None and not computed:
        raise NothingToDifferentiate(
            "no variable of the block holds a value that can be differentiated",
            asked=asked,
            found="no floating tensor made in the block, other than of constants, in a variable",
            why="gradients are of a value that the block leaves in a variable, with respect to what it reads",
            next="loss = ..., in the block, from its Variables or from the tensors that it reads",
        )
    of = next(reversed(computed)) if one.of is None else str(one.of)
    name = re.split(r"[.\[]", of)[0]
    value = name_in(frame, name)
    held = computed if value is UNKNOWN else Variables({**computed, name: value})
    return named_output(trace, held, of, one.cotangent, words) or choose(held, of, one.cotangent, trace.tape, words)


def why_not(error: Exception, probe: Request, tape: BlockTape) -> Reason | None:
    """Return the reason why a block was not differentiated. None if the caller must raise the error, because it is
    about the probe's own arguments.
    """
    if not isinstance(error, BackprobeError):
        said = said_by(error).strip("'\"")
        known = [note.removeprefix("backprobe: ") for note in getattr(error, "__notes__", ())[1:]]
        why = f"{type(error).__name__}: {said}"
        return Reason("block_not_differentiated", {"why": why, "next": "\n".join(known), "error": said})
    is_unknown = isinstance(error.__cause__, LookupError)
    if not isinstance(error, BadOutput | NothingToDifferentiate) or is_unknown or probe.cotangent is not None:
        return None
    compiled = [one.code for one in tape.not_followed()]
    if "graph_not_followed" in compiled:
        return Reason("block_not_differentiated", {"why": IN_GRAPH, "next": BY_SESSION})
    if compiled:
        instead = EAGERLY if "keras_compiled" in compiled else UNCOMPILED
        return Reason("block_not_differentiated", {"why": COMPILED, "next": instead})
    found = f" ({error.asked}: {error.found})" if probe.keys else f" ({error.found})"
    found = found if isinstance(error, BadOutput) else ""
    return Reason("block_not_differentiated", {"why": error.headline + found, "next": error.next})
