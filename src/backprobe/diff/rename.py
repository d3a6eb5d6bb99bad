"""Renames: patterns of names of one recording, and of the names that the same values have in another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from backprobe.errors import BadName, BadOption, NothingMatched
from backprobe.findings.phrasing import listed
from backprobe.record.brief import kind, written
from backprobe.record.names import nearest, outside, split
from backprobe.record.patterns import ACROSS_MODULES, GLOB, WITHIN

REST = r"(?P<rest>[./:].*)?"
"""A pattern names a whole name, or the beginning of it up to a boundary: the rest stays as it is."""


@dataclass(frozen=True)
class Rename:
    """One rename: what its pattern matches is called something else in the other recording."""

    pattern: str
    replacement: str
    expression: re.Pattern[str]
    template: Sequence[str]
    """What stands between the stars of the replacement."""

    def of(self, name: str) -> str | None:
        """The other name of a name without counts, None where the pattern does not match it.

        >>> rename_of("h.*", "layers.*").of("h.3.attn:scores"), rename_of("u", "hidden").of(":u")
        ('layers.3.attn:scores', ':hidden')
        """
        found = self.expression.fullmatch(name)
        if found is None:
            return None
        stars = [text or "" for name, text in found.groupdict().items() if name != "rest"]
        pieces = [piece for pair in zip(self.template, [*stars, ""], strict=True) for piece in pair]
        return "".join(pieces) + (found["rest"] or "")

    def __str__(self) -> str:
        return f"by the rename {self.pattern!r}: {self.replacement!r}"


def rename_of(pattern: str, replacement: str) -> Rename:
    """Read one rename. Raises BadName and BadOption."""
    asked = f"rename={{{pattern!r}: {replacement!r}}}"
    if not pattern or not replacement:
        raise BadName("a pattern of rename is empty", asked=asked, next='rename={"h.*": "layers.*"}')
    pattern_parts, stars = _parts(pattern)
    parts, others = _parts(replacement)
    if stars != others:
        raise BadOption(
            "both patterns of a rename have the same stars in the same order", asked=asked,
            found=f"{listed(stars) or 'none'} and {listed(others) or 'none'}",
            why="what a star matches stands in the place of the same star of the other name",
            next='rename={"h.*.mlp": "layers.*.ffn"}',
        )  # fmt: skip
    pieces = [re.escape(pattern_parts[0])]
    for number, (star, text) in enumerate(zip(stars, pattern_parts[1:], strict=True)):
        pieces += [f"(?P<star{number}>{ACROSS_MODULES if star == '**' else WITHIN})", re.escape(text)]
    is_local = split(pattern)[1] is None and split(replacement)[1] is None
    start = "(?P<colon>:)?" if is_local and not stars and "." not in pattern and "/" not in pattern else ""
    template = ["", *parts] if start else parts
    return Rename(pattern, replacement, re.compile(start + "".join(pieces) + REST), template)


def _parts(pattern: str) -> tuple[list[str], list[str]]:
    """The texts between the stars of a pattern, and the stars. Raises BadName."""
    read, texts, stars, at = outside(pattern), [], [], 0
    for star in GLOB.finditer(pattern):
        if read[star.start()]:
            texts.append(pattern[at : star.start()])
            stars.append(star[0])
            at = star.end()
    return [*texts, pattern[at:]], stars


def renames_of(
    rename: Mapping[str, str] | None, names: Iterable[str], others: Iterable[str], what: str = "recording"
) -> Sequence[Rename]:  # fmt: skip
    """The renames, each of which renames something of ``names`` to one of ``others``, both without counts.

    ``what`` is what has these names: a recording or a run.

    Raises BadOption, BadName, and NothingMatched for a pattern that matches nothing.
    """
    if rename is None:
        return ()
    if not isinstance(rename, Mapping) or not all(isinstance(one, str) for pair in rename.items() for one in pair):
        raise BadOption(
            f"rename maps patterns of the first {what}'s names to patterns of the second's",
            asked=f"rename={written(rename)}", found=kind(rename), next='rename={"h.*": "layers.*"}',
        )  # fmt: skip
    made = [rename_of(pattern, replacement) for pattern, replacement in rename.items()]
    names, others = list(dict.fromkeys(names)), set(others)
    renamed: dict[str, tuple[str, Rename]] = {}
    for one in made:
        pairs = [(name, to) for name in names if (to := one.of(name)) is not None]
        _refuse_unmatched(one, pairs, names, others, what)
        for name, to in pairs:
            if name in renamed and renamed[name][0] != to:
                _refuse_two(name, renamed[name][1], one, (renamed[name][0], to))
            renamed.setdefault(name, (to, one))
    targets: dict[str, str] = {}
    for name, (to, one) in renamed.items():
        if to in others and targets.setdefault(to, name) != name:
            _refuse_one(to, targets[to], name, one)
    return made


def _refuse_unmatched(
    rename: Rename, pairs: Sequence[tuple[str, str]], names: Sequence[str], others: set[str], what: str
) -> None:  # fmt: skip
    if any(to in others for _, to in pairs):
        return
    missing, known, which = (rename.pattern, names, "first") if not pairs else (pairs[0][1], others, "second")
    close = nearest(missing, known)
    raise NothingMatched(
        f"no name of the {which} {what} is {missing!r}",
        asked=f"rename={{{rename.pattern!r}: {rename.replacement!r}}}",
        found=f"{len(known)} names" + (f", the nearest: {', '.join(close)}" if close else ""),
        why="a rename that matches nothing would otherwise go unnoticed",
        next=f"{'a.names and b.names' if what == 'run' else 'list(a) and list(b)'}, for the names of both {what}s",
    )  # fmt: skip


def _refuse_two(name: str, first: Rename, second: Rename, to: Sequence[str]) -> None:
    raise BadOption(
        f"two patterns rename {name!r}", asked=f"rename={{{first.pattern!r}: ..., {second.pattern!r}: ...}}",
        found=f"{to[0]!r} and {to[1]!r}", why="a value has one partner", next=f"rename={{{name!r}: {to[0]!r}}}",
    )  # fmt: skip


def _refuse_one(to: str, first: str, second: str, rename: Rename) -> None:
    raise BadOption(
        f"{first!r} and {second!r} are both renamed to {to!r}",
        asked=f"rename={{{rename.pattern!r}: {rename.replacement!r}}}", why="a value has one partner",
        next="a pattern that keeps them apart, such as one with a star where they differ",
    )  # fmt: skip
