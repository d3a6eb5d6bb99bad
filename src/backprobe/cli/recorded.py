"""The recording that a command works on: made from a function or a whole script, or loaded from a folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import backprobe as bp
from backprobe.cli import script
from backprobe.cli.program import asked, is_module, is_saved, probed, refuse_beside_recording
from backprobe.errors import BadOption
from backprobe.findings.phrasing import listed


def recorded(
    program: str,
    words: Sequence[str],
    *,
    of: Sequence[str] = (),
    partials: Any,
    by_default: bool = False,
    **options: Any,
) -> bp.Recording:
    """Return the recording. Raises BadOption, and the errors of ``probed``, ``script.recorded`` and ``load``.

    For a function, ``of`` names the output to differentiate. For a script or a saved recording, ``of`` selects one of
    the outputs that were differentiated.
    """
    wanted = by_default if partials is None else partials
    if is_saved(program):
        refuse_beside_recording([program], words, {**options, "partials": partials})
        return _of(bp.load(program, to="numpy"), of, program, words)
    if is_module(program) or (program.endswith(".py") and ":" not in program):
        made = script.recorded(program, words, partials=wanted, **options)
        return _of(made, of, program, words)
    return probed(program, words, of=of, partials=wanted, **options)


def of_one(program: str, words: Sequence[str], *beside: str, **options: Any) -> bp.Recording:
    """Return a recording for a command that needs a single output.

    ``beside`` are words before the program's arguments.
    """
    found = recorded(program, words, **options)
    if found.record.is_of_several:
        raise BadOption(
            f"the recording is of several outputs: {listed(found.output_keys)}",
            asked=asked(program, *beside, *words),
            why="each of them has gradients of its own",
            next=asked(program, *beside, *words, options=("--of", found.output_keys[-1])),
        )
    return found


def _of(made: bp.Recording, of: Sequence[str], program: str, words: Sequence[str]) -> bp.Recording:
    # The part of a recording that belongs to one output; all of it if none is named. Raises BadOption.
    if not of:
        return made
    keys = made.output_keys or tuple([entry.name for entry in made.outputs])
    if len(of) > 1 or of[0] not in keys:
        raise BadOption(
            "one of the outputs is meant" if len(of) > 1 else f"no output is called {of[0]!r}",
            asked=asked(program, *words, options=[word for one in of for word in ("--of", one)]),
            found=listed(keys),
            next=asked(program, *words, options=("--of", keys[-1])) if keys else asked(program, *words),
        )
    return made.of(of[0]) if made.output_keys else made
