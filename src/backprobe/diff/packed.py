"""Parameters that hold several of the other recording's: three projections of attention, four gates, two biases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from backprobe.diff.conventions import BIAS, GATES, INPUT, PROJECTIONS, STATE, WEIGHT, plain_segment
from backprobe.diff.matches import BY_PATH, WHOLE, Match, Reading
from backprobe.diff.modules import Modules, Path


class Packing:
    """One module of one recording, ``whole``, and one of the other, ``parts``, that may have its parameters in parts.

    ``is_swapped`` says that ``whole`` is of the second recording.
    """

    def __init__(self, whole: Modules, at: Path, parts: Modules, of: Path, *, is_swapped: bool) -> None:
        self.whole, self.at, self.parts, self.of, self.is_swapped = whole, at, parts, of, is_swapped

    def matches(self) -> Iterator[Match]:
        """What belongs together, none where neither module is like that."""
        own = _roles(self.whole, self.at)
        yield from self._attention(own)
        yield from self._gates(own)
        yield from self._sums(own)

    def _attention(self, own: Mapping[str, int]) -> Iterator[Match]:
        if "packed " + WEIGHT in own:
            yield from self.projections({WEIGHT: own["packed " + WEIGHT], BIAS: own.get("packed " + BIAS, -1)})

    def projections(self, own: Mapping[str, int]) -> Iterator[Match]:
        """Three projections in these parameters, where the other module has one child for each."""
        children, beside = _children(self.parts, self.of), _children(self.whole, self.at)
        for names in PROJECTIONS:
            if all(name in children and name not in beside for name in names):
                each = [_roles(self.parts, children[name]) for name in names]
                for role in (WEIGHT, BIAS):
                    yield from self._each(own.get(role, -1), [one.get(role) for one in each], ())

    def _gates(self, own: Mapping[str, int]) -> Iterator[Match]:
        children = _children(self.parts, self.of)
        if INPUT + WEIGHT not in own or not all(f"{of}{gate}" in children for of in "ih" for gate in GATES):
            return
        inputs, states = ([_roles(self.parts, children[f"{of}{gate}"]) for gate in GATES] for of in "ih")
        yield from self._each(own[INPUT + WEIGHT], [one.get(WEIGHT) for one in inputs], ())
        yield from self._each(own.get(STATE + WEIGHT, -1), [one.get(WEIGHT) for one in states], ())
        for bias, others in _biases(own):
            yield from self._each(bias, [one.get(BIAS) for one in states], others)

    def _sums(self, own: Mapping[str, int]) -> Iterator[Match]:
        # Two biases that are added, where the other has their sum.
        other = _roles(self.parts, self.of).get(BIAS)
        if other is not None and INPUT + BIAS in own and STATE + BIAS in own:
            for bias, others in _biases(own):
                yield self._match(bias, other, Reading(added=others))

    def _each(self, whole: int, parts: Sequence[int | None], added: tuple[int, ...]) -> Iterator[Match]:
        # The parts of one parameter, if all are there and together are as large as it is.
        there = [part for part in parts if part is not None]
        if whole < 0 or len(there) < len(parts):
            return
        if sum(map(self.parts.size, there)) == self.whole.size(whole):
            for number, part in enumerate(there):
                yield self._match(whole, part, Reading(number, len(there), added))

    def _match(self, whole: int, part: int, reading: Reading) -> Match:
        if self.is_swapped:
            return Match(part, whole, BY_PATH, readings=(WHOLE, reading))
        return Match(whole, part, BY_PATH, readings=(reading, WHOLE))


def _biases(own: Mapping[str, int]) -> list[tuple[int, tuple[int, ...]]]:
    # Each bias, with the other one, which is added to it.
    there = [own[role] for role in (INPUT + BIAS, STATE + BIAS, BIAS) if role in own]
    return [(bias, tuple(other for other in there if other != bias)) for bias in there]


def _roles(modules: Modules, path: Path) -> dict[str, int]:
    return {modules.role(at): at for at in modules.leaves.get(path, {}).values()}


def _children(modules: Modules, path: Path) -> dict[str, Path]:
    return {plain_segment(child[-1]): child for child in modules.children.get(path, ())}
