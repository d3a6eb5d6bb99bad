"""Mentions: the recorded values from which an entry is computed, according to the program's text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from backprobe.cuts.cutting_operations import Use, as_called, uses
from backprobe.cuts.handed_on import is_by_key, keys_bound
from backprobe.cuts.lines import line_of
from backprobe.cuts.unrecorded import FIRM
from backprobe.record.entries import Entry
from backprobe.record.names import strip
from backprobe.record.source import Source

CONDITIONS = ("comparison", "index", "count")
"""Kinds of use as a condition or a position. The same line may also use the value itself."""
NO_NUMBERS, CHECKPOINT, DIFFERENTIATED = "shape", "checkpoint", "differentiated"


@dataclass(frozen=True)
class Mention:
    """A recorded value that the source uses to compute another value: the line, and how the line uses it."""

    source: int
    target: int
    line: Source | None
    uses: tuple[Use, ...] = ()

    @property
    def use(self) -> Use:
        """The use that counts, if the line uses the value several times: one that cuts the gradient, if there is one.

        A use as a condition counts only if there is no other, because a condition has no gradient: in
        ``where(u > 0, u.detach(), 0)`` the use is ``u.detach()``.
        """
        kept = [use for use in self.uses if use.kind != NO_NUMBERS]
        cutting = [use for use in kept if use.kind not in ("", DIFFERENTIATED)]
        beside = [use for use in cutting if use.kind not in CONDITIONS]
        if cutting and not beside:
            beside = [use for use in kept if not use.kind and use.call and not use.is_conditional and not use.flat]
        return next(iter(beside or cutting or [use for use in kept if use.kind] or kept), Use())

    @property
    def is_firm(self) -> bool:
        """Does every use of the value's numbers certainly cut the gradient, whatever the graph shows?"""
        kinds = {use.kind for use in self.uses} - {NO_NUMBERS}
        return bool(kinds) and kinds.issubset(FIRM)

    @property
    def place(self) -> Source | None:
        """The line of the use that counts, which may be within a statement of several lines; None if it is unknown."""
        return None if self.line is None else line_of(self.line, self.use.text or self.use.flat or self.use.call)


def mentions_of(target: int, entry: Entry, unseen: Collection[int] = ()) -> list[Mention]:
    """Return the mentions of an entry: the values it is computed from, except those of which only the shape is used.

    ``unseen`` are results of functions inside a transformation whose values cannot be recorded. No edge leads into such
    results, so the arguments of these functions are counted as mentions too.
    """
    called = [
        *(read.spelled for read in entry.reads if read.at not in unseen),
        *(way.through for way in entry.indirect),
    ]
    followed = tuple(dict.fromkeys(name.removesuffix("()") for name in called if name.endswith("()")))
    found: dict[tuple[int, Source | None], Mention] = {}
    for source, line, known in _said(entry, followed):
        if source == target or (known is not None and all(use.kind == NO_NUMBERS for use in known)):
            continue
        before = found.get((source, line))
        if before is None or not before.uses:
            found[source, line] = Mention(source, target, line, known or ())
    return list(found.values())


Said = tuple[int, Source | None, tuple[Use, ...] | None]
"""The position of a mentioned entry, the line, and the uses of the entry on that line. The uses are None if the text
does not show them.
"""


def _said(entry: Entry, followed: tuple[str, ...]) -> Iterator[Said]:
    # Yield the values that an entry's own expression mentions, and values that reached it through another object, such
    # as a list. A value in an object may keep its history until the entry's own line cuts it.
    for read in entry.reads:
        if not _is_of_other_key(entry, read.spelled):
            yield read.at, entry.source, _uses(entry.source, read.spelled, followed)
    for way in entry.indirect:
        if way.through in keys_bound(way.source.statement):
            continue
        known, own = _uses(way.source, way.spelled, followed), _uses(entry.source, way.through, followed)
        cuts_here = not _has_cutter(known) and _has_cutter([use for use in own or () if not _is_own(use, way.through)])
        yield (way.at, entry.source, own) if cuts_here else (way.at, way.source, known)


def _is_of_other_key(entry: Entry, spelled: str) -> bool:
    # Does the entry come from another key of a dictionary that was mapped value by value?
    local, dot, key = spelled.partition(".")
    own = strip(entry.name).rpartition(":")[2].partition(".")[2]
    return bool(dot and own and key != own and entry.source is not None and is_by_key(entry.source.expression, local))


def _is_own(use: Use, through: str) -> bool:
    # Is this an attribute or method of an object that is not a tensor? Then its name says nothing about gradients.
    # ``sample()`` is the exception: only distributions have this method.
    return use.kind != "sample" and re.fullmatch(rf"{re.escape(through)}\.\w+(\(.*)?", use.text, re.DOTALL) is not None


def _uses(line: Source | None, spelled: str, followed: tuple[str, ...]) -> tuple[Use, ...] | None:
    found = None if line is None else uses(line.expression or line.statement, spelled, followed)
    return None if line is None or found is None else tuple([as_called(use, line.calls) for use in found])


def _has_cutter(known: Iterable[Use] | None) -> bool:
    return any(use.kind not in ("", NO_NUMBERS, DIFFERENTIATED) for use in known or ())
