"""Full and printed names of the values of a run."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from backprobe.tracing.assemble import EntryNames
from backprobe.tracing.reader import Reader
from backprobe.tracing.values import NamedAs, ScopeId, Value


def full(name: NamedAs) -> str:
    """Return the full name, in which all counts are written."""
    scope, local, count, leaf = name
    return local if scope is None else f"{scope.full}:{local}#{count}{leaf}"


def names_of(reader: Reader, values: Sequence[Value]) -> EntryNames:
    """Return the names of these values. Their full names must already be known."""
    printer = _Printer(reader, values)
    positions: dict[str, int] = {}
    printed: dict[str, str] = {}
    of_entries = []
    for at, value in enumerate(values):
        own = [printer.write(name) for name in value.names]
        positions.update(dict.fromkeys(value.fulls, at))
        printed.update(zip(value.fulls, own, strict=True))
        of_entries.append(own if len(own) == 1 else _outermost_first(value.fulls, own))
    return EntryNames(positions, printed, of_entries)


def _outermost_first(fulls: Sequence[str], printed: Sequence[str]) -> list[str]:
    # Return the printed names of a value. Names in outer scopes come first: the caller's ``z`` before ``/func:z``, the
    # name in the called function.
    depths = [name.count("/") for name in fulls]
    return list(dict.fromkeys(own for _, own in sorted(zip(depths, printed, strict=True), key=itemgetter(0))))


class _Printer:
    # Writes printed names. A count is written only if the name is ambiguous without it, and the shorthand ``u`` is used
    # only if it has one reading.
    def __init__(self, reader: Reader, values: Sequence[Value]) -> None:
        self.reader = reader
        self.scopes: dict[ScopeId, str] = {}
        self.paths = {name[1] for value in values for name in value.names if name[0] is None} | set(reader.entered)

    def write(self, name: NamedAs) -> str:
        scope, local, count, leaf = name
        if scope is None:
            return local
        place = self.scopes.get(scope)
        if place is None:
            place = self.scopes[scope] = scope.printed(self.reader.entered)
        counted = f"{local}#{count}" if scope.counts.get(local, 1) > 1 else local
        if place and local == "return" and not leaf and "#" not in counted and not place.startswith("/"):
            return place  # the scope alone means its return value
        bare = counted + leaf
        return f"{place}:{bare}" if place or bare in self.paths else bare
