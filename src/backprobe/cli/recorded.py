"""What a command records: a function, a whole script, or the folder of a recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import backprobe as bp
from backprobe.cli import script
from backprobe.cli.program import PARTIALS, is_saved, probed, refuse_beside_recording


def recorded(program: str, words: Sequence[str], *, partials: str | None, by_default: str = "false", **options: Any
             ) -> bp.Recording:  # fmt: skip
    """The recording. Raises BadOption, and what ``probed``, ``script.recorded`` and ``load`` raise."""
    if is_saved(program):
        refuse_beside_recording([program], words, {**options, "partials": partials})
        return bp.load(program, to="numpy")
    wanted = partials or by_default
    if program.endswith(".py") and ":" not in program:
        return script.recorded(program, words, partials=PARTIALS.get(wanted, wanted), **options)
    return probed(program, words, partials=wanted, **options)
