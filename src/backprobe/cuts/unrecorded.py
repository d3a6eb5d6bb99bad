"""Finds cuts of unrecorded values, such as a line that detaches the result of a model which has no entry.

It is unknown whether such a value had a history. If it had, the entry lost a gradient that no recorded edge shows.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from backprobe.cuts.cutting_operations import Use, as_called, may_cut, unseen_uses
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.source import Source
from backprobe.source.user_code import package

FIRM = ("detach", "data", "number", "numpy", "copied", "parameter", "stop_gradient", "assigned", "index", "integer")
"""Kinds of use that always cut. Others are known to cut only if the graph lacks the edge."""
CERTAIN = ("detach", "data", "number", "stop_gradient")
"""Kinds of use that cut even if the same expression also uses the value in another way."""
CUT_OFF = (GradStatus.DETACHED, GradStatus.NO_GRAD)
BARE = (GradStatus.FROZEN, GradStatus.NOT_TENSOR, GradStatus.NOT_FLOAT)


class Hidden(NamedTuple):
    """An unrecorded value that a line uses: its text, its use, and the line."""

    text: str
    use: Use
    line: Source


def _in_its_line(entry: Entry, empty: Collection[str] = (), *, nested: bool = False) -> list[Hidden]:
    # The unrecorded values that an entry's own line uses. Names in ``empty`` do not count as recorded.
    line = entry.source
    spelled = {read.spelled for read in entry.reads} | {way.through for way in entry.indirect}.difference(empty)
    return _unseen_in(line, line.expression, spelled, nested) if line is not None and line.expression else []


def _unseen_in(line: Source, text: str, spelled: set[str], nested: bool = False) -> list[Hidden]:
    known = spelled | {re.split(r"[.\[]", name)[0] for name in spelled} - {"self", "cls"}
    functions = {call.rpartition(".")[2] for call in line.calls}
    # a function that the line calls directly; a module appears here by its class, which is capitalized
    library = frozenset(name for name in functions if name[:1].islower())
    unseen = unseen_uses(text, frozenset(known), library, nested)
    return [Hidden(part, as_called(use, line.calls), line) for part, use in unseen]


def hidden_beside(entry: Entry) -> list[Hidden]:
    """Return unrecorded values that a line of user code cuts off, although the result gets its gradient another way."""
    line = entry.source
    may = entry.status is GradStatus.OK and line is not None and may_cut(line.expression) and not package(line.file)
    return [one for one in _in_its_line(entry, nested=True) if one.use.kind in FIRM] if may else []


def may_lose(cut: Hidden) -> bool:
    """Can this cut lose a history? A NumPy array has none. What is used as an index, or converted to integers, is taken
    to have one only if a call computed it.
    """
    if cut.use.kind in ("index", "integer"):
        return cut.text.endswith(")")
    return f"from_numpy({cut.text})" not in cut.use.text


def unseen_calls(entry: Entry) -> list[str]:
    """The calls of unrecorded objects, such as models, in an entry's own line."""
    return [one.text for one in _in_its_line(entry) if one.text.endswith(")")]


def hidden_cuts(entry: Entry) -> list[Hidden]:
    """Return the unrecorded values that an entry's own line cuts off, after those cut off on the way to it.

    The earlier ones are cut on lines that bind names which hold no tensor, and which the entry's line then uses. Only
    entries that are frozen, no tensors or not floating point are examined, and detached ones that read no recorded
    value.
    """
    is_of_unseen = entry.status is GradStatus.DETACHED and not (entry.reads or entry.indirect)
    if entry.status not in BARE and not is_of_unseen:
        return []
    before: dict[str, list[Hidden]] = {}
    for way in entry.indirect:
        text = way.source.expression or way.source.statement
        cuts = [one for one in _unseen_in(way.source, text, {way.spelled, way.through}) if one.use.kind in FIRM]
        if cuts:
            before[way.through] = list(dict.fromkeys([*before.get(way.through, ()), *cuts]))
    found = _in_its_line(entry, before)
    if entry.is_because("frozen_no_grad"):
        return [one._replace(use=Use("no_grad", one.text)) for one in found[:1]]
    return [*(one for cuts in before.values() for one in cuts), *(one for one in found if one.use.kind in FIRM)]
