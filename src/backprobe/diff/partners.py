"""Pairs the modules of two recordings, and their parameters: by path, then by place below the same path."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from backprobe.diff.beside import GivenLeaves, in_pairs
from backprobe.diff.conventions import BIAS, PACKED, WEIGHT, plain_segment
from backprobe.diff.matches import BY_PATH, BY_PLACE, Match
from backprobe.diff.modules import ModulePaths, Path
from backprobe.diff.packed import projections, recurrent, roles_of
from backprobe.diff.side import Side

One = TypeVar("One")


class Partners:
    """Pairs the modules of two recordings. Each module has at most one partner.

    ``of`` maps the path of a module in the first recording to the path of its partner, and to how the partner was
    found. ``matches`` are new matches of parameters. ``known`` are the matches found before, such as those by name
    or by a rename, from which the pairing starts.
    """

    def __init__(self, a: Side, b: Side, known: Iterable[Match], numbers: tuple[GivenLeaves, GivenLeaves]) -> None:
        self.a, self.b, self.numbers = ModulePaths(a), ModulePaths(b), numbers
        self.of: dict[Path, tuple[Path, str]] = {}
        self.taken: set[Path] = set()
        self.matches: list[Match] = []
        self.matched: tuple[set[int], set[int]] = (set(), set())
        for match in known:
            self._note(match)
            if match.a in self.a.place and match.b in self.b.place:
                self._pair(self.a.place[match.a][0], self.b.place[match.b][0], BY_PATH)
        self._pair((), (), BY_PATH)
        self._within((), ())
        self._left()
        while around := self._around():
            for pair in around:
                self._within(*pair)
        for path, (other, how) in list(self.of.items()):
            self._leaves(path, other, how)

    def _pair(self, path: Path, other: Path, how: str) -> bool:
        if path in self.of or other in self.taken:
            return self.of.get(path, ((), ""))[0] == other
        self.of[path] = other, how
        self.taken.add(other)
        return True

    # Methods for pairs of modules.

    def _within(self, path: Path, other: Path) -> None:
        # Pair the children of two partner modules by name, and the remaining ones by size.
        self._packed(path, other)
        self._alike(path, other, lambda child: child[-1], BY_PATH, most=1)
        self._alike(path, other, lambda child: plain_segment(child[-1]), BY_PATH, most=1)
        own, others = self._free(path, other)
        if len(own) == 1 < len(others) or len(others) == 1 < len(own):
            self._through(path, other, own, others)
        self._alike(path, other, None, BY_PLACE, most=0)
        for child in self.a.children.get(path, ()):
            if child in self.of:
                self._within(child, self.of[child][0])

    def _through(self, path: Path, other: Path, own: Sequence[Path], others: Sequence[Path]) -> None:
        # If only one recording has an extra module around the children, continue with the children of that module.
        inner, outer = (self.a, own[0]) if len(own) == 1 else (self.b, others[0])
        names = {child[-1] for child in inner.children.get(outer, ())}
        if names & {one[-1] for one in (others if len(own) == 1 else own)}:
            self._within(*((outer, other) if len(own) == 1 else (path, outer)))

    def _free(self, path: Path, other: Path) -> tuple[list[Path], list[Path]]:
        # The children of two modules that have no partner yet.
        return (
            [one for one in self.a.children.get(path, ()) if one not in self.of],
            [one for one in self.b.children.get(other, ()) if one not in self.taken],
        )

    def _alike(self, path: Path, other: Path, key: Callable[[Path], object] | None, how: str, most: int) -> None:
        own, others = self._free(path, other)
        self._pair_all(own, others, key or self.a.weight, key or self.b.weight, how, most)

    def _left(self) -> None:
        # Pair the remaining modules that have the same parameters, wherever they are.
        own = [path for path in self.a.below(()) if path not in self.of]
        others = [path for path in self.b.below(()) if path not in self.taken]
        self._pair_all(own, others, self.a.signature, self.b.signature, BY_PLACE, 0)

    def _pair_all(
        self,
        own: Sequence[Path],
        others: Sequence[Path],
        key: Callable[[Path], object],
        other_key: Callable[[Path], object],
        how: str,
        most: int,
    ) -> None:
        for each in _grouped(self.a.in_order(own), self.b.in_order(others), key, other_key, most):
            for pair in in_pairs(*each, self.numbers, (self.a.largest, self.b.largest), how):
                self._pair(*pair)

    def _around(self) -> list[tuple[Path, Path]]:
        # Pair container modules if the modules that they contain are partners.
        within = self.a.held(set(self.of)), self.b.held(self.taken)
        new = []
        for path in sorted(within[0].keys() - self.of.keys(), key=len, reverse=True):
            partners = {self.of[one][0] for one in within[0][path]}
            fits = [one for one, held in within[1].items() if held == partners and one not in self.taken]
            if partners and fits:
                new.append((path, max(fits, key=len)))
                self._pair(*new[-1], BY_PLACE)
        return new

    # Methods for pairs of parameters.

    def _packed(self, path: Path, other: Path) -> None:
        # Match parameters if one recording packs several of them into one.
        for whole, at, parts, of, is_swapped in (
            (self.a, path, self.b, other, False),
            (self.b, other, self.a, path, True),
        ):
            packed = {role.removeprefix(PACKED): one for role, one in roles_of(whole, at).items() if PACKED in role}
            for own in (packed, *(roles_of(whole, child) for child in whole.children.get(at, ()))):
                if own.keys() <= {WEIGHT, BIAS}:
                    self._add_all(projections(whole, at, own, parts, of, is_swapped=is_swapped))

    def _add_all(self, found: Iterable[Match]) -> None:
        # Add matches of entries that are still unmatched. They are selected before the first is added, because several
        # may match parts of one parameter.
        new = [one for one in found if one.a not in self.matched[0] and one.b not in self.matched[1]]
        for match in new:
            self.matches.append(match)
            self._note(match)

    def _note(self, match: Match) -> None:
        # Note that both entries of a match have a partner.
        for places, at in zip(self.matched, (match.a, match.b), strict=True):
            places.add(at)

    def _leaves(self, path: Path, other: Path, how: str) -> None:
        # Match the parameters of two partner modules: by name, by role, and the rest by place.
        a, b = self.a, self.b
        self._add_all(recurrent(a, a.cell(path), b, b.cell(other)))
        path, other = (path, b.cell(other)) if path in a.leaves else (a.cell(path), other)
        for key, other_key, most, found_how in (
            (a.leaf, b.leaf, 1, how),
            (a.role, b.role, 1, how),
            (a.size, b.size, 0, BY_PLACE),
        ):
            own = [at for at in a.leaves.get(path, {}).values() if at not in self.matched[0]]
            others = [at for at in b.leaves.get(other, {}).values() if at not in self.matched[1]]
            for each in _grouped(own, others, key, other_key, most):
                self._add_all([Match(*pair) for pair in in_pairs(*each, self.numbers, (int, int), found_how)])


def _grouped(
    own: Sequence[One],
    others: Sequence[One],
    key: Callable[[One], object],
    other_key: Callable[[One], object],
    most: int,
) -> list[tuple[list[One], list[One]]]:
    # Group items with equal keys, if both sides have equally many of them. ``most`` limits their number; 0 means no
    # limit.
    groups: dict[object, tuple[list[One], list[One]]] = defaultdict(lambda: ([], []))
    for number, (each, of) in enumerate(((own, key), (others, other_key))):
        for one in each:
            groups[of(one)][number].append(one)
    return [each for each in groups.values() if len(each[0]) == len(each[1]) <= (most or len(each[0]))]
