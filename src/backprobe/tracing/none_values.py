"""The reason why a name holds None: either the plain fact, or that this attention returns no attention weights."""

from __future__ import annotations

import re

from backprobe.record.names import split
from backprobe.record.reasons import Reason
from backprobe.record.source import Source

WEIGHTS = r"(?:\w+_)?att(?:entio)?ns?_(?:output_)?(?:weights?|probs?|scores?|matrix)(?:_reshaped)?"
NAMED = re.compile(rf"(?:self\.)?{WEIGHTS}(?:#\d+)?")
RETURNED = re.compile(r"return(?:#\d+)?\.(\d+)")
IS_NONE = Reason("not_tensor", {"kind": "None"})
NO_WEIGHTS = Reason("no_attention_weights", {"kind": "None"})


def why_none(name: str, source: Source | None, is_computed: bool) -> Reason:
    """Return the reason why the value with this name is None. The line at ``source`` has bound it.

    ``is_computed`` says whether that line mentions a recorded value. It is False for the default value of an argument.
    """
    local = split(name)[1] or name
    is_refused = source is not None and "need_weights=False" in source.statement
    if is_computed and (NAMED.fullmatch(local) or is_refused):
        return NO_WEIGHTS
    place = RETURNED.fullmatch(local)
    if place is not None and source is not None and source.text.lstrip().startswith("return "):
        returned = [part.strip(" ()") for part in source.text.strip().removeprefix("return ").split(",")]
        if len(returned) > int(place[1]) and NAMED.fullmatch(returned[int(place[1])]):
            return NO_WEIGHTS
    return IS_NONE
