"""Matches a parameter that packs several parameters of the other recording: projections, gates or biases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from backprobe.diff.conventions import BIAS, GATES, INPUT, PROJECTIONS, STATE, UPDATE_FIRST, WEIGHT, plain_segment
from backprobe.diff.matches import BY_PATH, Match, ParameterReading
from backprobe.diff.modules import ModulePaths, Path


def projections(
    whole: ModulePaths, at: Path, own: Mapping[str, int], parts: ModulePaths, of: Path, *, is_swapped: bool
) -> Iterator[Match]:
    """Match three projections packed in one module with the three child modules of the other recording, by role.

    ``is_swapped`` says that ``whole`` belongs to the second recording.
    """
    children, beside = children_of(parts, of), children_of(whole, at)
    for names in PROJECTIONS:
        if all(name in children and name not in beside for name in names):
            each = [roles_of(parts, children[name]) for name in names]
            for role in (WEIGHT, BIAS):
                there = [one[role] for one in each if role in one and role in own]
                if len(there) == len(names) and sum(map(parts.size, there)) == whole.size(own[role]):
                    pairs = [((own[role], number, 3), (part, 0, 1)) for number, part in enumerate(there)]
                    yield from _joined([(*(pair[::-1] if is_swapped else pair), (), ()) for pair in pairs])


Slots = dict[tuple[str, str], tuple[int, int, int]]
"""For the weight or bias of each gate: a parameter's position, the index of the part, and the number of parts."""


def recurrent(a: ModulePaths, path: Path, b: ModulePaths, other: Path) -> Iterator[Match]:
    """Match the parameters of two recurrent cells, which pack all gates in some order or have one for each gate."""
    slots = _slots(a, path), _slots(b, other)
    gates = [gate for role, gate in slots[0] if role == STATE + WEIGHT and (role, gate) in slots[1]]
    for role in (INPUT + WEIGHT, STATE + WEIGHT):
        yield from _joined([(slots[0].get((role, gate)), slots[1].get((role, gate)), (), ()) for gate in gates])
    found: list[Any] = []
    for gate in gates:
        own, others = (
            [one[role, gate] for role in (INPUT + BIAS, STATE + BIAS) if (role, gate) in one] for one in slots
        )
        # this gate multiplies the second bias, so the two biases cannot be added
        if len(own) == len(others) or (gate == "n" and len(gates) > 1):
            found += [(*pair, (), ()) for pair in zip(own, others, strict=False)]
        elif all(len({at for at, _, _ in each}) == len(each) for each in (own, others)):
            found += [(*pair, _others(own, pair[0]), _others(others, pair[1])) for pair in product(own, others)]
    yield from _joined(found)


def _others(each: Sequence[tuple[int, int, int]], one: tuple[int, int, int]) -> tuple[int, ...]:
    return tuple(at for at, _, _ in each if at != one[0])


def _joined(found: Sequence[tuple[Any, Any, tuple[int, ...], tuple[int, ...]]]) -> Iterator[Match]:
    # Merge matches of parts into a match of whole parameters, if both have the same parts in the same order.
    groups: dict[Any, list[tuple[ParameterReading, ParameterReading]]] = {}
    for one, two, *added in found:
        if one is not None and two is not None:
            both = ParameterReading(one[1], one[2], added[0]), ParameterReading(two[1], two[2], added[1])
            groups.setdefault((one[0], two[0], *added), []).append(both)
    for (at, other, own, more), parts in groups.items():
        if all(first.part == second.part and first.of == second.of == len(parts) for first, second in parts):
            parts = [(ParameterReading(added=own), ParameterReading(added=more))]
        yield from (Match(at, other, BY_PATH, readings=both) for both in parts)


def _slots(modules: ModulePaths, path: Path) -> Slots:
    own, found = roles_of(modules, path), Slots()
    children = {name: roles_of(modules, child) for name, child in children_of(modules, path).items()}
    gates = _gates(modules, own, children)
    # Keras stores the input bias and the recurrent bias in one parameter, as two rows
    both = BIAS in own and len(modules.entries[own[BIAS]].shape or ()) == 2
    for letter, prefix in (("i", INPUT), ("h", STATE)):
        whole = {role.removeprefix(prefix): at for role, at in own.items() if role.startswith(prefix)}
        if BIAS in own and (both or letter == "i"):
            whole = {BIAS: own[BIAS], **whole}
        whole |= children.get(f"dense_{letter}", {})
        for number, gate in enumerate(gates):
            alone = children.get(f"{letter}{gate}", {})
            found |= {(prefix + role, gate): (at, 0, 1) for role, at in alone.items()}
            for role, at in whole.items():
                of = len(gates) * (1 + (both and role == BIAS))
                if modules.leaf(at) != "bias_n":
                    found[prefix + role, gate] = at, number + (of - len(gates)) * (letter == "h"), of
                elif gate == "n":
                    found[prefix + role, gate] = at, 0, 1
    return found


def _gates(modules: ModulePaths, own: Mapping[str, int], children: Mapping[str, Mapping[str, int]]) -> str:
    # The gates of a cell in the order in which a parameter packs them; empty if the module is not a cell.
    whole = own.get(STATE + WEIGHT, children.get("dense_h", {}).get(WEIGHT))
    if whole is None:
        return next((gates for gates in GATES if all(f"h{gate}" in children for gate in gates)), "")
    sizes = sorted(modules.entries[whole].shape or (1, 0))
    order = [gates for gates in GATES if len(gates) * sizes[0] == sizes[-1]]
    return order[-1 if modules.leaf(whole) == UPDATE_FIRST else 0] if order else ""


def roles_of(modules: ModulePaths, path: Path) -> dict[str, int]:
    """A module's own parameters, by their roles."""
    return {modules.role(at): at for at in modules.leaves.get(path, {}).values()}


def children_of(modules: ModulePaths, path: Path) -> dict[str, Path]:
    """The child modules by name, as ``plain_segment`` shortens it."""
    return {plain_segment(child[-1]): child for child in modules.children.get(path, ())}
