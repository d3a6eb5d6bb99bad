"""Fits the columns of a table to a width. Sources are shortened first, then the middle of names, but never numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass

GAP = 2
ALIAS = "= "
WIDEST = 40  # the most characters of a value or gradient in a notebook
LEAST_NAME = 24  # characters that names get before values are shown without their shapes
BOUNDARY = re.compile(r"(?=[./:])")
Forms = tuple[str, str, str]
"""Three texts for one thing: the full one, a shorter one, and the shortest."""

LEVELS = ((0, 0), (1, 2), (2, 2))
"""The pairs of forms for value and gradient that are used together. The gradient needs no shape, because the value
shows it.
"""


@dataclass(frozen=True)
class TableRow:
    """The texts of one entry in a table."""

    names: tuple[str, ...]
    value: Forms
    gradients: tuple[Forms, ...]  # for each output; if there is no gradient, the forms of the reason
    place: str
    statement: str
    ok: bool

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns in full. Each name has its own line."""
        return self._with(self.value[0], *(forms[0] for forms in self.gradients))

    @property
    def brief(self) -> tuple[str, ...]:
        """The columns for a notebook, in which long values and gradients are shortened."""
        return self._with(
            *(
                forms[0] if len(forms[0]) <= WIDEST or not self.ok else forms[1]
                for forms in (self.value, *self.gradients)
            )
        )

    def _with(self, *numbers: str) -> tuple[str, ...]:
        source = f"{self.place}  {self.statement}" if self.place else ""
        return "\n".join(self.names), *numbers, source

    def shown(self, at: int, level: int) -> str:
        """The text of one gradient in a given form. If there is no gradient, the shortest form of the reason."""
        return self.gradients[at][LEVELS[level][1] if self.ok else -1]


@dataclass(frozen=True)
class TableColumns:
    """The width of each column, and the forms that it shows."""

    name: int
    value: int
    gradients: tuple[int, ...]
    source: int  # 0 if there is no such column
    level: int
    titles_in_full: tuple[str, ...]

    @classmethod
    def fitting(cls, rows: Sequence[TableRow], width: int, titles: tuple[str, ...]) -> TableColumns:
        """Choose the longest forms that leave enough room for all names.

        If there are none, choose the longest forms that leave ``LEAST_NAME`` characters for names, or else the
        shortest.
        """
        longest = max((len(name) for row in rows for name in row.names), default=0)
        longest = max(longest, len(titles[0]))
        rooms = []
        for level, (value, _) in enumerate(LEVELS):
            of_value = max([len(titles[1]), *(len(row.value[value]) for row in rows)])
            of_gradients = tuple(
                [
                    max([len(title), *(len(row.shown(at, level)) for row in rows)])
                    for at, title in enumerate(titles[2:-1])
                ]
            )
            taken = of_value + sum(of_gradients) + (1 + len(of_gradients)) * GAP
            rooms.append((width - taken, of_value, of_gradients))
        fits = [at for at, (room, *_) in enumerate(rooms) if room >= longest]
        enough = [at for at, (room, *_) in enumerate(rooms) if room >= LEAST_NAME]
        level = (fits or enough or [len(rooms) - 1])[0]
        room, of_value, of_gradients = rooms[level]
        name = min(longest, max(room, len(titles[0])))
        left = room - name - GAP
        places = max((len(row.place) for row in rows), default=0)
        source = left if left >= max(places, len(titles[-1])) else 0
        return cls(name, of_value, of_gradients, source, level, titles)

    @property
    def titles(self) -> list[str]:
        *shown, source = self.titles_in_full
        widths = (self.name, self.value, *self.gradients)
        return [*map(str.ljust, shown, widths), *([source] if self.source else [])]

    def cells(self, row: TableRow, name: str) -> list[str]:
        """The cells in the first line of a row, padded to their columns. The reason for a missing gradient may extend
        into the source column.
        """
        value, _ = LEVELS[self.level]
        shown, why = [name.ljust(self.name), row.value[value].ljust(self.value)], row.gradients[-1][0]
        if not row.ok and len(self.gradients) == 1 and len(why) > self.gradients[0] and self.source:
            return [*shown, cut(why, self.gradients[0] + GAP + self.source)]
        for at, width in enumerate(self.gradients):
            fits = not row.ok and len(row.gradients[at][0]) <= width
            shown.append((row.gradients[at][0] if fits else row.shown(at, self.level)).ljust(width))
        return [*shown, cut(row.cells[-1], self.source)] if self.source else shown


def cut(text: str, width: int) -> str:
    """The text, or its beginning with an ellipsis if it is too long."""
    return text if len(text) <= width else text[: max(width - 1, 0)] + "…"


def elided(names: Sequence[str], width: int) -> list[str]:
    """The names, shortened in the middle of their paths if they are too long. Different names stay different, if
    possible.

    Aliases begin with a special sign.
    """
    long = {name.removeprefix(ALIAS) for name in names if len(name) > width}
    common = _common([*long]) if _alike(long, 0, width) else 0
    alike = _alike(long, common, width)
    return [_without(name, common, width, name.removeprefix(ALIAS) in alike) for name in names]


def _alike(long: Set[str], common: int, width: int) -> set[str]:
    # The names that would be shortened to the same text as another name, in the list of names or of aliases.
    found: set[str] = set()
    for sign in ("", ALIAS):
        looks = {name: _without(sign + name, common, width, is_alike=False) for name in long}
        count = Counter(looks.values())
        found |= {name for name, look in looks.items() if count[look] > 1}
    return found


def _without(name: str, common: int, width: int, is_alike: bool) -> str:
    if len(name) <= width:
        return name
    sign = ALIAS if name.startswith(ALIAS) else ""
    path = name.removeprefix(ALIAS)
    if is_alike:
        return sign + _end(path, width - len(sign))
    lead = sign + ("…" if common else "")
    return lead + _elided(path[common:], width - len(lead))


def _end(name: str, width: int) -> str:
    # The end of a name; only whole segments, if these take up at least half of the width.
    end = name[1 - width :]
    start = next((found.end() + 1 for found in BOUNDARY.finditer(end)), 0)
    return "…" + (end[start:] if len(end) - start >= width / 2 else end)


def _elided(name: str, width: int) -> str:
    if len(name) <= width:
        return name
    *parts, last = BOUNDARY.split(name)
    head = ""
    for part in parts:
        if len(head) + len(part) + 1 + len(last) > width:
            break
        head += part
    if head:
        return f"{head}…{last}"
    kept = max(width - 1, 2)
    return f"{name[: kept // 3]}…{name[-(kept - kept // 3) :]}"


def _common(names: Sequence[str]) -> int:
    # The length of the whole segments with which all names begin, including the separator that follows.
    paths = [BOUNDARY.split(name)[:-1] for name in names]
    length = 0
    for parts in zip(*paths, strict=False):
        if len({*parts}) > 1:
            break
        length += len(parts[0])
    return length + 1 if length else 0


def in_columns(cells: Sequence[str], first: int, others: Sequence[int]) -> str:
    """A line of a table, with columns of these widths."""
    numbers = [text.rjust(width) for text, width in zip(cells[1:], others, strict=True)]
    return (" " * GAP).join([cells[0].ljust(first), *numbers])
