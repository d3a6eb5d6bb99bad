"""Functions for whose backward pass the program itself defines a derivative rule."""

from __future__ import annotations

import re

from backprobe.explain.text import say
from backprobe.record.entries import Entry, Record
from backprobe.record.reasons import Note
from backprobe.record.source import expression_of

OWN_RULE = "own_rule"


def rules_of(record: Record) -> list[Note]:
    """The notes on called functions that have their own derivative rule."""
    return [note for note in record.notes if note.code == OWN_RULE]


def rules_in(record: Record, entry: Entry) -> list[str]:
    """Return a sentence for each called function in the value's line that has its own derivative rule."""
    text = expression_of(entry.source)
    called = set(re.findall(r"(\w+)\(", text))
    found = [note.fields for note in rules_of(record) if note.fields["name"].rpartition(".")[2] in called]
    return [say(OWN_RULE, function=one["name"], rule=one["rule"], at=one["at"]) for one in found]
