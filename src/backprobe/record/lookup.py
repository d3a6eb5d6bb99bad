"""Look-up of names as people write them: with or without counts, as a scope, or as the shorthand for a local."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from backprobe.record.entries import Entry, GradStatus, Record
from backprobe.record.names import COUNT, canonical, counts_agree, of_graph, outside, split, strip

NOT_DIFFERENTIABLE = (GradStatus.NOT_TENSOR, GradStatus.NOT_FLOAT)


class Lookup:
    """The full names of some values, and the position of each name's value.

    ``is_floating`` says whether the value at a position is a floating tensor.

    >>> values = Lookup({":u#0": 0, ":u#1": 1, "h.0:return#0": 2}, lambda at: True)
    >>> values.readings("u"), values.readings("u#-1"), values.readings("h.0")
    ([[':u#0', ':u#1']], [[':u#1']], [['h.0:return#0']])
    """

    def __init__(self, positions: Mapping[str, int], is_floating: Callable[[int], bool]) -> None:
        self.positions, self.is_floating = positions, is_floating

    @cached_property
    def stripped(self) -> Mapping[str, list[str]]:
        """For each name without counts: the full names."""
        found: dict[str, list[str]] = {}
        for full in self.positions:
            found.setdefault(strip(full), []).append(full)
        return found

    def readings(self, name: str) -> list[list[str]]:
        """The full names that a text may mean, for each reading: as written, as the return value of a scope, or as the
        shorthand for a local. If all of these find nothing, it is read as a graph's own name.
        """
        written = canonical(name)
        readings = [self._find(written)]
        if split(written)[1] is None:
            readings += [self._find(f"{written}:return"), self._find(f":{written}")]
        return [found for found in readings if found] or [self._find(of_graph(name))]

    def at(self, names: Iterable[str]) -> set[int]:
        """The positions of the values with these full names."""
        return {self.positions[full] for full in names}

    def _find(self, name: str) -> list[str]:
        # The full names that match this name and its counts. The name of a container stands for its only floating
        # tensor, or for everything in it if there is not exactly one.
        asked, last = _without_last(name)
        plain = strip(asked)
        found = [full for full in self.stripped.get(plain, []) if counts_agree(asked, full)]
        if not found and split(plain)[1] is not None:
            prefix = plain + "."
            inside = [
                full
                for stripped, names in self.stripped.items()
                if stripped.startswith(prefix)
                for full in names
                if counts_agree(asked + "." + strip(stripped)[len(prefix) :], full)
            ]
            floating = [full for full in inside if self.is_floating(self.positions[full])]
            found = floating if len(self.at(floating)) == 1 else inside
        if last and found:
            highest = max(_last_count(full) for full in found)
            found = [full for full in found if _last_count(full) == highest]
        return found


def _without_last(name: str) -> tuple[str, bool]:
    # The name without its first ``#-1``, and whether it had one.
    read = outside(name)
    for count in COUNT.finditer(name):
        if count[1] == "-1" and read[count.start()]:
            return name[: count.start()] + name[count.end() :], True
    return name, False


def _last_count(full: str) -> tuple[int, ...]:
    read = outside(full)
    return tuple(int(count[1]) for count in COUNT.finditer(full) if read[count.start()])


def _has_partials(record: Record) -> bool:
    # Were partials requested? Then there are sums over paths, or at least some partials.
    if record.path_sums is not None or any(one.path_sums is not None for one in record.by_output.values()):
        return True
    edges = (edge for entry in record.entries for edge in entry.inputs)
    return any(edge.partial is not None or edge.contribution is not None for edge in edges)


class Index:
    """The entries of a record by their printed names, and look-up of names as people write them."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.entries: dict[str, Entry] = {entry.name: entry for entry in record.entries}

    @cached_property
    def marked(self) -> dict[str, Entry]:
        """The entries, for people: each knows if the recording has no partials. Training loops do not need this."""
        if not _has_partials(self.record):
            for entry in self.record.entries:
                vars(entry)["is_without_partials"] = True
        return self.entries

    def __getstate__(self) -> dict[str, Any]:
        """The state for copying and pickling, without the look-up of names, which is built again."""
        return {"record": self.record, "entries": self.entries}

    @cached_property
    def names(self) -> Lookup:
        entries = self.record.entries
        return Lookup(self.record.names, lambda at: entries[at].status not in NOT_DIFFERENTIABLE)
