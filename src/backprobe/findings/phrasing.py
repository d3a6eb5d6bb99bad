"""Phrases that messages share: shortened lists, counts, places in files, and shortened texts."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import tokenize
from collections.abc import Callable, Iterable, Sequence

from backprobe.record.brief import path, place
from backprobe.record.entries import Entry
from backprobe.record.names import outside
from backprobe.record.source import Source

MOST = 8
"""The number of names that a list shows before it counts the others."""


FEW = 5
"""The number of names that a list shows one by one; more names are folded by path."""

# matches lines of files and sentences, which must not be folded like names
NO_NAME = re.compile(r":\d+(:|$)|^[^`(\[]*\s")
WORD = re.compile(r"\w+")
CODE = re.compile("`[^`]*`")

Where = Callable[[Source], str]
"""Writes a line as text, by its file and number."""

Choices = tuple[tuple[str, ...], ...]
"""A folded name: for each of its parts, the alternatives."""


def listed(names: Sequence[object], most: int = MOST) -> str:
    """Return names as text. Many names are folded by path; if there are still too many, the rest is counted.

    >>> listed(["a", "b"]), listed(["a", "b", "c"], most=2)
    ('a, b', 'a, b and 1 more')
    >>> listed([f"h.{at}.{name}" for at in range(3) for name in ("weight", "bias")])
    'h.{0..2}.{weight,bias}'
    """
    return _listed([*map(str, names)], most, str)


def quoted(names: Sequence[str], most: int = MOST) -> str:
    """Return names as text like ``listed``, with each name in quotes.

    >>> quoted(["u", "v"])
    "'u', 'v'"
    """
    return _listed(names, most, repr)


def _listed(names: Sequence[str], most: int, spelled: Callable[[str], str]) -> str:
    is_long = len(names) > FEW and not any(map(NO_NAME.search, names))
    shown = folded(names) if is_long else [(name, 1) for name in names]
    rest = len(names) - sum(count for _, count in shown[:most])
    return ", ".join(spelled(text) for text, _ in shown[:most]) + (f" and {rest} more" if len(shown) > most else "")


def folded(names: Sequence[str]) -> list[tuple[str, int]]:
    """Fold names into patterns that match exactly these names, each with the number of names that it matches.

    The patterns are in the order of their first names. ``record.patterns.expanded`` reverses the folding. A name of a
    single part, such as ``u``, is not folded, and no name is if one occurs twice.

    >>> folded(["h.0.q", "h.1.q", "h.0.k", "h.1.k", "wte", "h.2.q"])
    [('h.{0,1}.{q,k}', 4), ('wte', 1), ('h.2.q', 1)]
    """
    if len({*names}) < len(names):
        return [(name, 1) for name in names]
    found: Iterable[Choices] = [tuple([(part,) for part in parts(name)]) for name in names]
    for at in reversed(range(max(map(len, found), default=0))):
        groups: dict[object, list[Choices]] = {}
        for one in found:
            is_open = 1 < len(one) > at and all(map(WORD.fullmatch, one[at]))
            rest = tuple([frozenset(part) for part in (*one[:at], ("",), *one[at + 1 :])])
            groups.setdefault(rest if is_open else one, []).append(one)
        found = [
            group[0]
            if len(group) == 1
            else (*group[0][:at], tuple([each for one in group for each in one[at]]), *group[0][at + 1 :])
            for group in groups.values()
        ]
    return [("".join(map(braced, one)), math.prod(map(len, one))) for one in found]


def parts(name: str) -> list[str]:
    """Split a name into its segments and the separators between them.

    >>> parts("h.0/rotate:d['a.b']#1")
    ['h', '.', '0', '/', 'rotate', ':', "d['a.b']", '#', '1']
    """
    if name.count("`") % 2:
        return [name]  # an odd number of back quotes: not a name
    marked = "".join(
        f"\0{char}\0" if char in ".:/#" and read else char for char, read in zip(name, outside(name), strict=True)
    )
    return [part for part in marked.split("\0") if part]


def braced(choices: Sequence[str]) -> str:
    """Write alternatives in braces; consecutive numbers are written as a range."""
    if len(choices) == 1:
        return choices[0]
    numbers = sorted(int(each) for each in choices if each.isascii() and each.isdigit() and str(int(each)) == each)
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    written = [f"{run[0]}..{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs]
    known = {*map(str, numbers)}
    return "{" + ",".join([*written, *(each for each in choices if each not in known)]) + "}"


def conjoined(names: Sequence[str]) -> str:
    """Join names as text.

    >>> conjoined(["ce", "kl", "l2"])
    'ce, kl and l2'
    """
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def plural(count: int, what: str) -> str:
    """Return a number with the word for what it counts.

    >>> plural(1, "value"), plural(1200, "value")
    ('1 value', '1,200 values')
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def shorten(text: str, most: int = 60) -> str:
    """Return a text in one line, cut off if it is too long.

    >>> shorten("torch.relu(x)", 10)
    'torch.rel…'
    """
    text = " ".join(text.split())
    return text[: most - 1] + "…" if len(text) > most else text


def location(source: Source) -> str:
    """Return a line of code with its path, in the form that editors and terminals turn into a link."""
    return f"{path(source.file, source.line)}: {source.text.strip()}"


def short(source: Source) -> str:
    """Return file name and line number, for use when the full path is shown too."""
    return place(source.file, source.line)


def places(sources: Iterable[Source | None]) -> Where:
    """Return a function that writes the place of a line: by file name, or by path if two of the files share a name."""
    files: dict[str, set[str]] = {}
    for file in (source.file for source in sources if source is not None):
        files.setdefault(os.path.basename(file), set()).add(file)
    twice = {file for same in files.values() if len(same) > 1 for file in same}
    return lambda source: (path if source.file in twice else place)(source.file, source.line)


def placed(headline: str, source: Source | None, where: Where = short) -> str:
    """Return a headline with its place inserted: after the code that it quotes from the line, or else before any colon.

    The headline is returned as it is if there is no line, or if it already has the place.

    >>> placed("`h.detach()` cuts 'k' off from 'h'", Source("train.py", 3, "k = h.detach()"))
    "`h.detach()` at train.py:3 cuts 'k' off from 'h'"
    >>> placed("NaN is written into 'w' at `opt.step()`, from NaN", Source("train.py", 3, "opt.step()"))
    "NaN is written into 'w' at `opt.step()` (train.py:3), from NaN"
    >>> placed("NaN is born at 'y': 0/0", Source("train.py", 3, "y = a / b"))
    "NaN is born at 'y' (train.py:3): 0/0"
    """
    if source is None or short(source) in headline:
        return headline
    end = mid_sentence(headline) or len(headline)
    quoted = (code for code in CODE.finditer(headline, 0, end) if _is_quoted(code[0][1:-1], source.statement))
    first, last = next((code.span() for code in quoted), (end, end))
    return headline[:last] + (f" ({where(source)})" if first else f" at {where(source)}") + headline[last:]


def _is_quoted(code: str, statement: str) -> bool:
    # Is this text a part of the statement, regardless of spaces?
    spaced = r"\s*".join(map(re.escape, "".join(code.split())))
    return bool(code.strip()) and re.search(rf"(?<!\w){spaced}(?!\w)", statement) is not None


def mid_sentence(headline: str) -> int | None:
    """The position of the colon before the reason that a headline gives, if there is one."""
    end = CODE.sub(lambda code: "`" * len(code[0]), headline).find(": ")
    return end if end >= 0 else None


def uncommented(source: Source) -> str:
    """Return a line of code without its comment.

    >>> uncommented(Source("train.py", 1, "u = f('#')  # as in the paper"))
    "u = f('#')"
    """
    text = source.text.strip()
    # these errors are normal if the statement continues on the next line
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                text = text[: token.start[1]].rstrip()
    return text


def named(entry: Entry) -> str:
    """The name of an entry, and the line that computes it."""
    return repr(entry.name) + (f" ({location(entry.source)})" if entry.source is not None else "")
