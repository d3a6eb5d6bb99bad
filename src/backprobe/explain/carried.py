"""Values that a program carries from one step into the next, and the statement that detaches them."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterable, Iterator, Sequence

from backprobe.cuts.parsed import parsed, parts_of
from backprobe.explain.about_entries import own_name
from backprobe.explain.text import say
from backprobe.findings.phrasing import quoted
from backprobe.record.entries import Entry, Record
from backprobe.record.graph import Graph
from backprobe.record.names import split, strip

ITEM = re.compile(r"(?:\.\d+)+$")
"""Matches the end of the name of an item in a list or tuple, such as the ``.0`` of ``self.state.0``."""


def is_bound_again(record: Record, entry: Entry) -> bool:
    """Does a later entry reuse one of this entry's names, as the state of the next step does?"""
    at = record.entries.index(entry)
    return any(position > at for position in _namesakes(record, at))


def has_earlier(record: Record, entry: Entry) -> bool:
    """Did an earlier entry have one of this entry's names?"""
    at = record.entries.index(entry)
    return any(position < at for position in _namesakes(record, at))


def _namesakes(record: Record, at: int) -> list[int]:
    # The positions of the entries, this one included, that have one of its names; counts in names do not matter.
    own = {strip(name) for name, position in record.names.items() if position == at}
    return [position for name, position in record.names.items() if strip(name) in own]


def users_of(record: Record, value: Entry) -> list[Entry]:
    """The entries that use a value directly, from the next entry on that has one of its names; none without such an
    entry.

    In ``h = torch.tanh(h)``, the new ``h`` is such an entry itself.
    """
    at = record.entries.index(value)
    later = min((position for position in _namesakes(record, at) if position > at), default=len(record.entries))
    consumers = Graph.of(record).consumers[at]
    return [record.entries[each] for each in sorted(consumers) if each >= later]


def unrecorded(record: Record, users: Iterable[Entry]) -> list[str]:
    """Return names that the lines of ``users`` read, but that are bound to a recorded value only there or later.

    These are variables and attributes. When they were read, they held an unrecorded value, as of an earlier step.
    """
    found: dict[str, None] = {}
    for user in users:
        known = {ITEM.sub("", read.spelled) for read in user.reads}
        scopes = {split(name)[0] for name in (user.name, *user.aliases)}
        for entry in record.entries[record.entries.index(user) :]:
            for full in (entry.name, *entry.aliases):
                name = own_name(full)
                held = ITEM.sub("", name)
                is_seen = "." in held or split(full)[0] in scopes
                if is_seen and held not in known and _reads(user, held.partition("[")[0]):
                    found[name] = None
    return [*found]


def filled_lists(users: Sequence[Entry], values: Sequence[Entry]) -> list[str]:
    """Return the lists that the program appends to and the lines of ``users`` read, if all ``values`` are items of
    them.

    An entry of ``values`` is an item if its name is that of a list, such as ``kept.0``. Without ``values`` it is not
    known where the values are kept. A line then counts only if all unrecorded names that it reads are such lists.
    """
    read = {name: None for user in users for name in _kept_in(user, is_alone=not values)}
    holding = [ITEM.sub("", own_name(value.name)) for value in values]
    return [*read] if all(name in read for name in holding) else []


def _kept_in(user: Entry, *, is_alone: bool) -> list[str]:
    line = user.source
    tree = None if line is None else parsed(line.expression or line.statement)
    if line is None or tree is None:
        return []
    text = "".join(linecache.getlines(line.file))
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    parts = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and id(node) not in called | inner
    ]
    known = {read.spelled for read in user.reads}
    unknown = dict.fromkeys(name for node in parts if (name := ast.unparse(node)) not in known)
    lists = [name for name in unknown if f"{name}.append(" in text]
    return lists if not is_alone or len(unknown) == len(lists) else []


def detaching(record: Record, values: Sequence[Entry], users: Iterable[Entry]) -> str:
    """Return the remedy that detaches values before the next step uses them again; empty if there are no values.

    The remedy is a statement if each value is known to be used again by its name, and a sentence otherwise. In ``h =
    torch.tanh(y)``, the value may be kept in a list, and ``h`` may mean another value by the time the list is read.
    """
    used = [*users]
    spelled = [next(_spelled(record, value, used), "") for value in values]
    if not all(spelled):
        return say("detach_kept", values=quoted([value.name for value in values], len(values)))
    return detached(spelled)


def detached(spelled: Iterable[str]) -> str:
    """Return the statement that detaches the variables with these spellings.

    >>> detached(["h", "self.state.0", "self.state.1"])
    'h = h.detach(); self.state = tuple(part.detach() for part in self.state)'
    """
    depths = {ITEM.sub("", name): (ITEM.search(name) or [""])[0].count(".") for name in spelled}
    plain = [name for name, depth in depths.items() if not depth]
    alone = f"{', '.join(plain)} = {', '.join(f'{name}.detach()' for name in plain)}" if plain else ""
    parts = [f"{name} = {_each_detached(name, depth)}" for name, depth in depths.items() if depth]
    return "; ".join(filter(None, [alone, *parts]))


def _spelled(record: Record, value: Entry, used: Sequence[Entry]) -> Iterator[str]:
    # Yield the names by which the lines of ``used`` read a value, unless the same name means another value in that
    # line.
    for name in dict.fromkeys(map(own_name, (value.name, *value.aliases))):
        for user in used:
            others = {read.spelled for read in user.reads if record.entries[read.at] is not value}
            if name not in others and _reads(user, re.split(r"\[", ITEM.sub("", name))[0]):
                yield name


def _reads(user: Entry, name: str) -> bool:
    # Does the line of an entry read this name or attribute?
    line = user.source
    tree = None if line is None else parsed(line.expression or line.statement)
    parts = [] if tree is None else parts_of(tree, name, (ast.Name, ast.Attribute))
    return any(isinstance(part.ctx, ast.Load) for part in parts)


def _each_detached(container: str, depth: int) -> str:
    """Return the expression of a container with each of its tensors detached.

    >>> _each_detached("state", 1), _each_detached("states", 2)
    ('tuple(part.detach() for part in state)', 'tuple(tuple(part.detach() for part in one) for one in states)')
    """
    if depth == 1:
        return f"tuple(part.detach() for part in {container})"
    return f"tuple({_each_detached('one', depth - 1)} for one in {container})"
