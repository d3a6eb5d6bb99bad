"""Cuts of what is not recorded: a line that takes the history from what a model gives, and the model has no entry.

Of such a value nobody knows whether it had a history. So it is no proof that nothing requires a gradient, either.
"""

from __future__ import annotations

import re

from backprobe.record import Entry, GradStatus
from backprobe.source.mentions import Use, as_called, unseen_uses

FIRM = ("detach", "data", "number", "numpy", "copied", "parameter", "stop_gradient", "assigned", "index",
        "integer")  # fmt: skip
"""Uses that cut wherever they stand. The others are known only by the edge that is not there."""
CERTAIN = ("detach", "data", "number", "stop_gradient")
"""Those that cut also where the same expression uses the value in another way as well."""
LOSING = (*CERTAIN, "numpy", "copied", "parameter", "assigned")
"""Those that lose a derivative; what an index is computed of has none to lose."""
SWITCHED_OFF = "gradients were switched off there:"
"""In the reason of a value that was computed of nothing that is known to require a gradient, in such a place."""
WRITTEN_SINCE = "it was written since"
"""In the reason of a Variable's value that the output does not depend on: perhaps it depends on a later one."""
BARE = (GradStatus.FROZEN, GradStatus.NOT_TENSOR, GradStatus.NOT_FLOAT)


def _unseen(entry: Entry) -> list[tuple[str, Use]]:
    """What an entry's own line computes with that is not recorded, each with what is done to it."""
    line = entry.source
    if entry.status not in BARE or line is None or not line.expression:
        return []
    spelled = {read.spelled for read in entry.reads} | {way.through for way in entry.passages}
    known = spelled | {re.split(r"[.\[]", name)[0] for name in spelled} - {"self", "cls"}
    functions = {call.rpartition(".")[2] for call in line.calls}
    library = frozenset(name for name in functions if name[:1].islower())  # a module goes by its class
    unseen = unseen_uses(line.expression, frozenset(known), library)
    return [(text, as_called(use, line.calls)) for text, use in unseen]


def unseen_calls(entry: Entry) -> list[str]:
    """The calls in an entry's own line of what is not recorded, such as a model."""
    return [text for text, _ in _unseen(entry) if text.endswith(")")]


def hidden_cuts(entry: Entry) -> list[tuple[str, Use]]:
    """What an entry's own line cuts off that is not recorded, each with how it does that."""
    found = _unseen(entry)
    if SWITCHED_OFF in entry.reason:
        return [(text, Use("no_grad", text)) for text, _ in found[:1]]
    return [(text, use) for text, use in found if use.kind in FIRM]
