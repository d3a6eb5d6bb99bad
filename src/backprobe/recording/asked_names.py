"""Finds the entry that a name means, and makes the errors for names that mean no entry or several."""

from __future__ import annotations

from collections.abc import Sized
from typing import NoReturn

from backprobe.errors import AmbiguousName, UnknownName
from backprobe.findings.phrasing import listed
from backprobe.record.brief import cut, kind, written
from backprobe.record.entries import Entry, GradStatus
from backprobe.record.lookup import Index
from backprobe.record.names import nearest, of_graph, split, strip


def asked_entry(index: Index, name: str, asked: str) -> Entry:
    """Return the entry of this name. ``asked`` is the text of the verb's call for messages, with braces for the name.

    Raises UnknownName, AmbiguousName, or BadName.
    """
    if not isinstance(name, str) or not name:
        found = f"a name is a string, not {kind(name)}" if name != "" else "a name is not empty"
        raise UnknownName(found, asked=_filled(asked, written(name)), next=_filled(asked, "'u'"))
    names, record = index.names, index.record
    readings = names.readings(name)
    positions = names.at(full for found in readings for full in found)
    tensors = {at for at in positions if record.entries[at].status is not GradStatus.NOT_TENSOR}
    if len(tensors) == 1:
        positions = tensors  # if the name held None at first and then a tensor, the tensor is meant
    if len(positions) == 1:
        return index.marked[record.entries[positions.pop()].name]
    if not positions:
        _refuse_unknown(index, name, asked)
    choices = list(dict.fromkeys(record.printed[full] for found in readings for full in found))
    raise AmbiguousName(
        f"{name!r} means several values",
        asked=_filled(asked, repr(name)),
        found=listed(choices, 12),
        why="the name was bound more than once, holds several tensors, or has several readings",
        next=_filled(asked, repr(choices[-1])),
    )


def _refuse_unknown(index: Index, name: str, asked: str) -> NoReturn:
    scopes = [scope for scope, local in map(split, index.names.stripped) if scope and local]
    names = [written for entry in index.record.entries for written in (entry.name, *entry.aliases)]
    known = list(dict.fromkeys([*names, *scopes]))
    close = nearest(name, known)
    local = {strip(name).lstrip(":"), strip(of_graph(name)).lstrip(":")}
    unseen = [text for text in index.record.unseen if strip(text).lstrip(":") in local]
    raise UnknownName(
        f"no value is named {cut(name)!r}",
        asked=_filled(asked, repr(cut(name))),
        found=f"{counted(index.entries)}, the nearest: {listed(close)}" if close else f"names: {listed(known, 12)}",
        why="the program has this value, but the probe did not select it" if unseen else "",
        next=f"bp.probe(..., [{unseen[0].lstrip(':')!r}])"
        if unseen
        else _filled(asked, repr(close[0]))
        if close
        else "print(rec), for every name",
    )


def counted(entries: Sized) -> str:
    """Return a text with the number of entries."""
    return f"{len(entries):,} {'entry' if len(entries) == 1 else 'entries'}"


def _filled(asked: str, name: str) -> str:
    return asked.replace("{}", name)
