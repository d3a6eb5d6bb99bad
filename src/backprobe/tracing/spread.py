"""Spreads the values of a journal, and the contents of its containers, into one list that is made and compared in C.

A list, tuple, dict or dataclass is opened if its items are tensors, numbers, texts and other values that hold nothing,
or containers of these, down to a few levels. Every other value that may hold tensors is searched as in the rest of the
package (``Codes.found_in``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any, NamedTuple

from backprobe.record.containers import children, held
from backprobe.record.names import quote

LEVELS, MANY = 3, 16
"""How many levels of containers, and how many containers in one value, are opened. A value with more is searched."""

KEYS = set[type](), {str}, {int}
ITERATIONS = (tuple.__iter__, list.__iter__)  # a subclass may define another one

Getter = Callable[[Sequence[Any]], tuple[Any, ...]]


def getter(places: Sequence[int]) -> Getter:
    """A function that returns the items at these places as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    return lambda items: tuple([items[at] for at in places])


def types(items: Sequence[Any]) -> list[int]:
    """The identities of the items' types. The types themselves might keep a model alive."""
    return [*map(id, map(type, items))]


class OpenedLevel(NamedTuple):
    """The containers of one level, by their places in the list, and the types of their contents."""

    sequences: Getter
    mappings: Getter
    instances: Getter
    sizes: list[int]
    types: list[int]

    def open(self, items: Sequence[Any]) -> list[Any] | None:
        """The contents of these containers; None if their number or their types differ."""
        sequences, mappings, instances = self.sequences(items), self.mappings(items), self.instances(items)
        if [*map(len, sequences), *map(len, mappings)] != self.sizes:
            return None
        inside = [
            *chain.from_iterable(sequences),
            *chain.from_iterable(map(dict.keys, mappings)),
            *chain.from_iterable(map(dict.values, mappings)),
            *chain.from_iterable(map(held, instances)),
        ]
        return inside if types(inside) == self.types else None


class Spread:
    """The places of values in a journal, and of the values inside these. ``leaves`` has the places of the latter."""

    def __init__(self, journal: Any, places: Sequence[int], captures: int, flat: Collection[type]) -> None:
        """``flat`` are the types of values that hold no other values."""
        self.get_values, self.captures = getter(places), captures
        self.items: list[Any] = [*self.get_values(journal), *journal.trace.versions.tensors[:captures]]
        self.types = types(self.items)
        self.levels: list[OpenedLevel] = []
        self.leaves: dict[tuple[int, str], int] = {}
        self.keys: list[int] = []  # the places of the keys of mappings
        found = [at for at in range(len(places)) if type(self.items[at]) not in flat]
        opened = [at for at in found if _is_opened(self.items[at], flat)]
        self.others = [at for at in found if at not in opened]
        level = [(at, places[at], "") for at in opened]
        while level:
            level = self._add(level, flat)
        self.get_others, self.others_from = getter(self.others), len(self.items)
        searched = [journal.trace.codes.found_in(self.items[at]) for at in self.others]
        self.names = [tuple([leaf for leaf, _ in one]) for one in searched]
        starts = accumulate(map(len, searched), initial=len(self.items))
        for at, start, names in zip(self.others, starts, self.names, strict=False):
            self.leaves |= {(places[at], leaf): start + number for number, leaf in enumerate(names)}
        self.items += [item for one in searched for _, item in one]
        self.searched_types = types(self.items[self.others_from :])

    def _add(self, level: Sequence[tuple[int, int, str]], flat: Collection[type]) -> list[tuple[int, int, str]]:
        # Open the containers of one level. Returns the containers inside: place, place in the journal of the outermost
        # container, and path in that container.
        items, start, below = self.items, len(self.items), list[tuple[int, int, str]]()
        sequences, mappings, instances = ([one for one in level if _form(items[one[0]]) == form] for form in range(3))
        keys = [key for at, _, _ in mappings for key in dict.keys(items[at])]
        places = [getter([at for at, _, _ in of]) for of in (sequences, mappings, instances)]
        inside: list[Any] = []
        for one in (sequences, mappings, instances):
            if one is mappings:
                self.keys += range(start + len(inside), start + len(inside) + len(keys))
                inside += keys
            for at, root, path in one:
                for key, item in children(items[at]) or ():
                    leaf, place = f"{path}.{quote(key)}", start + len(inside)
                    self.leaves[root, leaf] = place
                    inside.append(item)
                    if type(item) not in flat:
                        below.append((place, root, leaf))
        sizes = [len(items[at]) for at, _, _ in (*sequences, *mappings)]
        self.levels.append(OpenedLevel(places[0], places[1], places[2], sizes, types(inside)))
        items += inside
        return below

    def of(self, journal: Any) -> list[Any] | None:
        """The list for another journal with values at the same places; None if the types of its values differ."""
        items = [*self.get_values(journal), *journal.trace.versions.tensors[: self.captures]]
        if types(items) != self.types:
            return None
        for level in self.levels:
            inside = level.open(items)
            if inside is None:
                return None
            items += inside
        if self.others:
            found = [*map(journal.trace.codes.found_in, self.get_others(items))]
            items += [item for one in found for _, item in one]
            if [tuple([leaf for leaf, _ in one]) for one in found] != self.names:
                return None
            if types(items[self.others_from :]) != self.searched_types:
                return None
        return items


def _form(value: Any) -> int | None:
    # 0, 1 or 2: the value is opened as a sequence, mapping or dataclass. None: it is not opened.
    kind = type(value)
    if issubclass(kind, (tuple, list)):
        return 0 if kind.__iter__ in ITERATIONS else None
    if issubclass(kind, dict):
        return 1 if {*map(type, dict.keys(value))} in KEYS else None
    return 2 if hasattr(kind, "__dataclass_fields__") else None


def _is_opened(value: Any, flat: Collection[type]) -> bool:
    level, seen = [value], set[int]()
    for _ in range(LEVELS):
        seen.update(map(id, level))
        if len(seen) > MANY or any(_form(one) is None for one in level):
            return False
        level = [item for one in level for _, item in children(one) or () if type(item) not in flat]
        if not level:
            return True
        if len({*map(id, level)} - seen) < len(level):  # an object that occurs twice is not opened
            return False
    return False
