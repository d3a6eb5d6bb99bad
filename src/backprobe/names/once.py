"""Lists each module and parameter once, by the path that a recording prints."""

from __future__ import annotations

from collections.abc import Mapping

from backprobe.names import text
from backprobe.record.names import private_segments, split


def listed_once(marks: Mapping[str, str], others: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The names without further paths of listed modules, and those of the omitted paths that have private segments.

    ``others`` maps each further path to the path that is printed. A further path without private segments stays, with a
    remark, and the names below it are omitted, because they are listed below the printed path.

    >>> listed_once({"head": "", "head.weight": "", "_all.0": "", "last": "", "last.weight": ""},
    ...             {"_all.0": "head", "last": "head", "last.weight": "head.weight"})
    ({'head': '', 'head.weight': '', 'last': 'same as head'}, ['_all.0'])
    """
    kept, private = {}, []
    for name, mark in marks.items():
        path = split(name)[0]
        printed = others.get(path)
        if printed is None or printed + name[len(path) :] not in marks:
            kept[name] = mark
        elif private_segments(path):
            private.append(name)
        elif name == path and path.rpartition(".")[0] not in others:
            kept[name] = text.SAME.format(_beside(printed, path))
    return kept, private


def _beside(printed: str, path: str) -> str:
    # The part of a path below the last module that it has in common with another, as a tree shows it: ``.layers.1``.
    # So siblings with equal subtrees stay equal.
    ends = [at for at, character in enumerate(printed) if character == "." and path.startswith(printed[: at + 1])]
    return printed[ends[-1] :] if ends else printed
