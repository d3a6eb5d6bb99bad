"""Names of values: the grammar, and the nearest names to a misspelled one.

    NAME  := SCOPE | [SCOPE] ":" LOCAL ["#" K] {"." LEAF}
    SCOPE := MODULE ["#" K] {"/" FUNCTION ["#" K]}

Inside backprobe a name is always *full*: every scope and local carries its ``#K``. ``strip`` takes the counts away,
and a printed name keeps only the counts that it needs. Text between back-quotes or brackets is literal.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import takewhile

from backprobe.errors import BadName

SPECIAL = frozenset(":#/*![`.")
BRACES = frozenset("{,")  # a pattern with both characters is expanded to several names
COUNT = re.compile(r"#(-?\d+)")
QUOTED = re.compile(r"`((?:[^`]|``)*)`")
LITERAL = frozenset("`[(")
OPENING, CLOSING = "[(", "])"


@lru_cache(65536)
def quote(segment: str) -> str:
    """Back-quote a segment of a path if it contains a character that the grammar uses.

    >>> quote("attn"), quote("a:b"), quote("tick`")
    ('attn', '`a:b`', '`tick```')
    """
    return "`" + segment.replace("`", "``") + "`" if _is_special(segment) else segment


def _is_special(segment: str) -> bool:
    found = {*segment}
    return not found or bool(found & SPECIAL) or found >= BRACES


@lru_cache(65536)
def quote_path(path: str) -> str:
    """Back-quote each segment of the path of a module or parameter that needs it.

    >>> quote_path("h.0.a:b")
    'h.0.`a:b`'
    """
    return ".".join(map(quote, path.split("."))) if path else ""


def private_segments(path: str) -> int:
    """The number of segments of a path that begin with an underscore.

    >>> private_segments("blocks.0._original_component.attn")
    1
    """
    return path.startswith("_") + path.count("._")


def canonical(name: str) -> str:
    """The name with back-quotes only where they are needed.

    >>> canonical("`h`.0.`a:b`:u")
    'h.0.`a:b`:u'
    """
    outside(name)  # raises BadName if a quote is not closed
    return QUOTED.sub(lambda found: quote(found[1].replace("``", "`")), name) if "`" in name else name


# An output number such as ``:0`` cannot be confused with a program's local, which is never a bare number.
GRAPH_TENSOR = re.compile(r"(.+?)(?::(\d+))?")


def of_graph(tensor: str) -> str:
    """The name of a graph's tensor, given the graph's own name for it: an operation, and an output number.

    >>> of_graph("dense/kernel:0"), of_graph("u"), of_graph("split:1")
    (':`dense/kernel`', ':u', ':split.1')
    """
    found = GRAPH_TENSOR.fullmatch(tensor)
    operation, output = (found[1], found[2]) if found is not None else (tensor, None)
    return f":{quote(operation)}" + (f".{int(output)}" if output is not None and int(output) else "")


def outside(text: str) -> list[bool]:
    """For each character: True if the grammar reads it, False if it is literal, in back-quotes or brackets. Raises
    BadName if a back-quote is not closed.
    """
    if not LITERAL & set(text):
        return [True] * len(text)
    flags, quoted, depth = [], "", 0
    for character in text:
        if quoted:
            flags.append(False)
            quoted = "" if character == quoted else quoted
        elif character == "`" or (depth and character in "'\""):
            flags.append(False)
            quoted = character
        elif character in OPENING:
            flags.append(False)
            depth += 1
        elif character in CLOSING and depth:
            flags.append(False)
            depth -= 1
        else:
            flags.append(not depth)
    if quoted == "`":
        raise BadName(
            f"the name {text!r} opens a back-quote and does not close it",
            asked=repr(text),
            why="a segment that holds one of : # / * ! . [ is written between back-quotes",
            next=repr(text + "`"),
        )
    return flags


@lru_cache(65536)
def split(name: str) -> tuple[str, str | None]:
    """Scope and local of a name; the local is None if the name is only a scope.

    >>> split("h.0/rotate#2:q#1"), split("h.0.attn"), split(":d['a:b']")
    (('h.0/rotate#2', 'q#1'), ('h.0.attn', None), ('', "d['a:b']"))
    """
    for at, (character, read) in enumerate(zip(name, outside(name), strict=True)):
        if character == ":" and read:
            return name[:at], name[at + 1 :]
    return name, None


def scope_of(name: str) -> str:
    """The scope of a local; empty for a name that is only a scope."""
    scope, local = split(name)
    return "" if local is None else scope


@lru_cache(65536)
def strip(name: str) -> str:
    """The name without its counts.

    >>> strip("h.0#1/rotate#0:q#3.0")
    'h.0/rotate:q.0'
    """
    if "`" not in name and "[" not in name:
        return COUNT.sub("", name)
    read = outside(name)
    return COUNT.sub(lambda count: "" if read[count.start()] else count[0], name)


def counts_agree(asked: str, full: str) -> bool:
    """Does a full name have every count that ``asked`` has? Apart from counts the two are equal.

    >>> counts_agree("f#1:u", "f#1:u#0"), counts_agree("f:u#1", "f#0:u#0")
    (True, False)
    """
    if "#" not in asked:
        return True
    return bool(re.fullmatch(with_optional_counts(asked, re.escape), full))


def with_optional_counts(text: str, translate: Callable[[str], str]) -> str:
    """A regular expression for full names: ``text`` translated, with an optional count wherever one may occur."""
    scope, local = split(text)
    pieces = [_counted(part, translate) for part in partition(scope, "/")] if scope else []
    result = "/".join(pieces)
    return result if local is None else f"{result}:{counted_local(local, translate)}"


@lru_cache(65536)
def partition(text: str, separator: str) -> tuple[str, ...]:
    """``text`` split at each separator that is not literal."""
    parts, start = [], 0
    for at, read in enumerate(outside(text)):
        if read and text[at] == separator:
            parts.append(text[start:at])
            start = at + 1
    return (*parts, text[start:])


def common_path(paths: Iterable[str]) -> str:
    """The longest path with which all of these paths of modules or parameters begin; empty if there is none.

    >>> common_path(["h.0.attn.q", "h.0.mlp"]), common_path(["enc", "dec"])
    ('h.0', '')
    """
    steps = zip(*(partition(path, ".") for path in paths), strict=False)
    return ".".join(each[0] for each in takewhile(lambda each: len({*each}) == 1, steps))


def _counted(segment: str, translate: Callable[[str], str]) -> str:
    if not segment or any(read and segment[at] == "#" for at, read in enumerate(outside(segment))):
        return translate(segment)
    return translate(segment) + r"(?:#\d+)?"


def counted_local(local: str, translate: Callable[[str], str]) -> str:
    if any(read and local[at] == "#" for at, read in enumerate(outside(local))):
        return translate(local)
    # the text does not show where the local ends and its leaves begin (self.cache), so a count may follow any segment
    return r"(?:#\d+)?\.".join(translate(part) for part in partition(local, ".")) + r"(?:#\d+)?"


def nearest(name: str, names: Iterable[str], *, most: int = 5) -> list[str]:
    """The names most similar to a misspelled name, best first; similarity of the last segment counts too.

    Names that differ only in case come first.
    """
    pool = sorted(set(names))
    last = re.split(r"[:/.]", name)[-1]
    by_last: dict[str, list[str]] = {}
    for candidate in pool:
        by_last.setdefault(re.split(r"[:/.]", strip(candidate))[-1], []).append(candidate)
    close = [*_but_for_case(name, pool), *difflib.get_close_matches(name, pool, n=most, cutoff=0.6)]
    for segment in (*_but_for_case(last, by_last), *difflib.get_close_matches(last, by_last, n=most, cutoff=0.6)):
        close += difflib.get_close_matches(name, by_last[segment], n=most, cutoff=0.0)
    return list(dict.fromkeys(close))[:most]


def _but_for_case(name: str, names: Iterable[str]) -> list[str]:
    return [one for one in names if one.casefold() == name.casefold()] if name else []
