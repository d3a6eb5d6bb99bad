"""Corrects why values have no gradient history, by the text of their lines: cut off, or never differentiable.

While a program runs, the backend knows only the names on a line. But the line may use only the shape of a
differentiated value, or cut off a value that comes from a list or a module. The reason that the backend has stored is
then wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from backprobe.cuts.mentions import CHECKPOINT, Mention, mentions_of
from backprobe.cuts.parsed import unread
from backprobe.cuts.unrecorded import BARE, CUT_OFF, FIRM, hidden_cuts
from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.graph import reached
from backprobe.record.reasons import Reason
from backprobe.record.source import Source, expression_of

HISTORY = (GradStatus.OK, GradStatus.NOT_CONNECTED, GradStatus.BACKWARD_NOT_RUN)
FROM_UNRECORDED = ("cut_unrecorded", "from_cut_unrecorded")


def histories(record: Record) -> dict[int, Entry]:
    """Return corrected entries, by position, if the text of the line shows another reason than the backend stored."""
    found: dict[int, Entry] = {}
    for at, entry in enumerate(record.entries):
        better = _reread(at, entry, record, found) if entry.reads or entry.indirect or entry.source else None
        if better is not None:
            found[at] = better
    return found


def _reread(at: int, entry: Entry, record: Record, found: Mapping[int, Entry]) -> Entry | None:
    if entry.is_because("frozen"):
        return _frozen(at, entry, record, found)
    if entry.is_because("no_history", "no_grad"):
        return _without_cut(entry, record, found)
    if entry.is_because("inherited"):
        known = [found.get(mention.source, record.entries[mention.source]) for mention in mentions_of(at, entry)]
        if known and all(one.status in (GradStatus.FROZEN, GradStatus.NOT_TENSOR) for one in known):
            return _but(entry, GradStatus.FROZEN, Reason("frozen"))
    return None


def _frozen(at: int, entry: Entry, record: Record, found: Mapping[int, Entry]) -> Entry | None:
    # Was a frozen value cut off after all: on its own line, earlier, or from values that are not recorded?
    mentions = mentions_of(at, entry) if entry.reads or entry.indirect else []
    sources = [(mention, found.get(mention.source, record.entries[mention.source])) for mention in mentions]
    if any(source.status in HISTORY and _cuts(mention) for mention, source in sources):
        return _but(entry, GradStatus.DETACHED, Reason("no_history"))
    line = next((mention.line for mention in mentions if _is_reentrant(mention)), None)
    if line is not None:
        return _but(entry, GradStatus.DETACHED, Reason("reentrant_checkpoint"), line)
    used = [source for mention, source in sources if not mention.use.is_conditional]
    cut = next((source for source in used if source.status in CUT_OFF), None)
    if cut is not None:
        return _but(entry, cut.status, Reason("inherited", {"status": str(cut.status)}))
    return _frozen_of_whole(entry, mentions, record, found) or _frozen_unrecorded(entry, used)


def _frozen_of_whole(
    entry: Entry, mentions: Iterable[Mention], record: Record, found: Mapping[int, Entry]
) -> Entry | None:
    # Was the value computed from whole numbers that come from a value with a history?
    whole = [
        mention.source
        for mention in mentions
        if record.entries[mention.source].status is GradStatus.NOT_FLOAT and not mention.use.is_conditional
    ]
    is_cut = _are_of_differentiated(whole, record, found)
    return _but(entry, GradStatus.DETACHED, Reason("no_history")) if is_cut else None


def _frozen_unrecorded(entry: Entry, used: Iterable[Entry]) -> Entry | None:
    # Was the value, or a value from which it was computed, cut off from something that is not recorded?
    hidden = hidden_cuts(entry)
    before = next((source for source in used if source.is_because(*FROM_UNRECORDED)), None)
    if hidden:
        why = Reason("cut_unrecorded", {"text": f"`{hidden[0].use.text or hidden[0].text}`"})
    elif before is not None:
        why = Reason("from_cut_unrecorded", {"value": repr(before.name)})
    else:
        return None
    return _but(entry, GradStatus.FROZEN, why)


def _are_of_differentiated(used: Iterable[int], record: Record, found: Mapping[int, Entry]) -> bool:
    # Does any of these values, or of the integers that they were computed from, come from a value with a history?
    def before(at: int) -> Iterable[int]:
        is_whole = record.entries[at].status is GradStatus.NOT_FLOAT
        return [mention.source for mention in mentions_of(at, record.entries[at])] if is_whole else ()

    return any(found.get(at, record.entries[at]).status not in BARE for at in reached(used, before))


def _but(entry: Entry, status: GradStatus, why: Reason, cause: Source | None = None) -> Entry:
    return replace(entry, status=status, why=why, cause=cause or entry.cause)


def _cuts(mention: Mention) -> bool:
    # Does the line use the numbers of a value without its history, at least in one place?
    return any((use.kind in FIRM or use.kind == "sample") and not use.is_conditional for use in mention.uses)


def _is_reentrant(mention: Mention) -> bool:
    # Does the line call a reentrant checkpoint? A checkpoint is reentrant by default.
    text = mention.use.text if mention.use.kind == CHECKPOINT else "use_reentrant="
    return "use_reentrant=True" in text or "use_reentrant=" not in text


def _without_cut(entry: Entry, record: Record, found: Mapping[int, Entry]) -> Entry | None:
    # Correct an entry to frozen if its line uses no number of any value with a history: nothing was cut off there.
    text = expression_of(entry.source)
    spelled = frozenset(read.spelled for read in entry.reads)
    if not text or entry.indirect or unread(text, spelled) or (not spelled and "super" in text):
        return None
    numbers = [mention.source for mention in mentions_of(-1, entry)]
    used = [found.get(number, record.entries[number]) for number in numbers]
    if _are_of_differentiated(numbers, record, found):
        return None
    return _but(entry, GradStatus.FROZEN, Reason("frozen" if used or not spelled else "shape_only"))
