"""The option ``rename``: patterns of names in one recording, and the corresponding names in the other."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations

from backprobe.errors import BadName, BadOption, NothingMatched
from backprobe.findings.phrasing import listed
from backprobe.record.names import nearest, outside, split
from backprobe.record.options import Option
from backprobe.record.patterns import ACROSS_MODULES, GLOB, WITHIN

MOST = 4  # the largest number of renames that are combined for one name
RENAME = Option(
    "rename",
    Mapping,
    lambda rename: all(isinstance(one, str) for pair in rename.items() for one in pair),
    '{"h.*": "layers.*"}',
    says="a dict from patterns of the first's names to patterns of the second's",
)
REST = r"(?P<rest>[./:].*)?"
"""A pattern matches a whole name, or its beginning up to a boundary. The rest of the name is kept."""


@dataclass(frozen=True)
class Rename:
    """One rename: names that match ``pattern`` have another name in the other recording."""

    pattern: str
    replacement: str
    expression: re.Pattern[str]
    template: Sequence[str]
    """The texts between the stars of the replacement."""

    def of(self, name: str) -> str | None:
        """Return the new name of a name without counts; None if the pattern does not match.

        >>> rename_of("h.*", "layers.*").of("h.3.attn:scores"), rename_of("u", "hidden").of(":u")
        ('layers.3.attn:scores', ':hidden')
        """
        found = self.expression.fullmatch(name)
        if found is None:
            return None
        stars = [text or "" for name, text in found.groupdict().items() if name != "rest"]
        pieces = [piece for pair in zip(self.template, [*stars, ""], strict=True) for piece in pair]
        return "".join(pieces) + (found["rest"] or "")

    @property
    def specific(self) -> tuple[int, int]:
        """A sort key: a rename is more specific the more characters of a name it spells out."""
        return sum(map(len, GLOB.split(self.pattern.lstrip(":")))), -self.pattern.count("*")

    def __str__(self) -> str:
        return f"by the rename {self.pattern!r}: {self.replacement!r}"


def rename_of(pattern: str, replacement: str) -> Rename:
    """Parse one rename. Raises BadName for an empty pattern or an open back-quote, and BadOption if the stars of the
    patterns differ.
    """
    asked = f"rename={{{pattern!r}: {replacement!r}}}"
    if not pattern or not replacement:
        raise BadName("a pattern of rename is empty", asked=asked, next='rename={"h.*": "layers.*"}')
    pattern_parts, stars = _parts(pattern)
    parts, others = _parts(replacement)
    if stars != others:
        raise BadOption(
            "both patterns of a rename have the same stars in the same order",
            asked=asked,
            found=f"{listed(stars) or 'none'} and {listed(others) or 'none'}",
            why="what a star matches stands in the place of the same star of the other name",
            next='rename={"h.*.mlp": "layers.*.ffn"}',
        )
    pieces = [re.escape(pattern_parts[0])]
    for number, (star, text) in enumerate(zip(stars, pattern_parts[1:], strict=True)):
        pieces += [f"(?P<star{number}>{ACROSS_MODULES if star == '**' else WITHIN})", re.escape(text)]
    is_local = split(pattern)[1] is None and split(replacement)[1] is None
    start = "(?P<colon>:)?" if is_local and not stars and "." not in pattern and "/" not in pattern else ""
    template = ["", *parts] if start else parts
    return Rename(pattern, replacement, re.compile(start + "".join(pieces) + REST), template)


def _parts(pattern: str) -> tuple[list[str], list[str]]:
    # The texts between the stars of a pattern, and the stars. Raises BadName if a back-quote is open.
    read, texts, stars, at = outside(pattern), [], [], 0
    for star in GLOB.finditer(pattern):
        if read[star.start()]:
            texts.append(pattern[at : star.start()])
            stars.append(star[0])
            at = star.end()
    return [*texts, pattern[at:]], stars


def renames_of(
    rename: Mapping[str, str] | None, names: Iterable[str], others: Iterable[str], what: str = "recording"
) -> Sequence[Rename]:
    """Return the renames. Each must rename at least one of ``names`` to one of ``others``, both given without
    counts.

    ``what`` is the word for the object that has the names: a recording or a run.

    Raises NothingMatched if a rename leads from none of ``names`` to one of ``others``, BadName for an empty pattern,
    and BadOption if stars differ, if a name gets two new names, or if two names get the same one.
    """
    if rename is None:
        return ()
    RENAME.check(rename)
    made = [rename_of(pattern, replacement) for pattern, replacement in rename.items()]
    names, others = list(dict.fromkeys(names)), set(others)
    found = renamed(names, others, made)
    for one in made:
        pairs = [(name, to) for name in names if (to := one.of(name)) is not None]
        if not any(found[name][0] in others for name, _ in pairs if name in found):
            _refuse_unmatched(one, pairs, names, others, what)
    targets: dict[str, str] = {}
    for name, (to, used) in found.items():
        _refuse_two(name, to, used, made, others)
        if to in others and targets.setdefault(to, name) != name:
            _refuse_one(to, targets[to], name, used[0])
    return made


def renamed(
    names: Iterable[str], others: Set[str], renames: Sequence[Rename]
) -> dict[str, tuple[str, Sequence[Rename]]]:
    """Return the new name of each renamed name, and the renames that were applied.

    If several renames match a name, they are applied one after another, the more specific first. If the result is not
    in ``others``, fewer of them are tried, until a result is. If none is, the most specific rename is applied alone.
    """
    found: dict[str, tuple[str, Sequence[Rename]]] = {}
    order = sorted(renames, key=lambda one: one.specific, reverse=True)
    for name in names:
        about = [one for one in order if one.of(name) is not None][:MOST]
        ways = [used for size in range(len(about), 0, -1) for used in combinations(about, size)]
        each = [(to, used) for used in ways if (to := _in_turn(name, used)) is not None]
        if each:
            found[name] = next((one for one in each if one[0] in others), next(one for one in each if len(one[1]) == 1))
    return found


def _in_turn(name: str, renames: Sequence[Rename]) -> str | None:
    # Apply several renames one after another; None if one of them does not match the result so far.
    for one in renames:
        to = one.of(name)
        if to is None:
            return None
        name = to
    return name


def _refuse_unmatched(
    rename: Rename, pairs: Sequence[tuple[str, str]], names: Sequence[str], others: set[str], what: str
) -> None:
    missing, known, which = (rename.pattern, names, "first") if not pairs else (pairs[0][1], others, "second")
    close = nearest(missing, known)
    lists = "a.names and b.names" if what == "run" else "list(a) and list(b)"
    raise NothingMatched(
        f"no name of the {which} {what} is {missing!r}",
        asked=f"rename={{{rename.pattern!r}: {rename.replacement!r}}}",
        found=f"{len(known)} names" + (f", the nearest: {', '.join(close)}" if close else ""),
        why="a rename that matches nothing would otherwise go unnoticed",
        next=f"rename={{{pairs[0][0]!r}: {close[0]!r}}}" if pairs and close else f"{lists}, for all names of both",
    )


def _refuse_two(name: str, to: str, used: Sequence[Rename], renames: Sequence[Rename], others: Set[str]) -> None:
    # Raise BadOption if two equally specific renames of one name lead to two existing names.
    for one in renames if len(used) == 1 else ():
        other = one.of(name)
        if other not in (None, to) and other in others and one.specific == used[0].specific:
            raise BadOption(
                f"two patterns rename {name!r}",
                asked=f"rename={{{used[0].pattern!r}: ..., {one.pattern!r}: ...}}",
                found=f"{to!r} and {other!r}",
                why="a value has one partner",
                next=f"rename={{{name!r}: {to!r}}}",
            )


def _refuse_one(to: str, first: str, second: str, rename: Rename) -> None:
    raise BadOption(
        f"{first!r} and {second!r} are both renamed to {to!r}",
        asked=f"rename={{{rename.pattern!r}: {rename.replacement!r}}}",
        why="a value has one partner",
        next=f"rename={{{first!r}: {to!r}}}, or a pattern with a star where they differ",
    )
