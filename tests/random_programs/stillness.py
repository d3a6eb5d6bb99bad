"""The oracle of local partials: what moves of a program when one of its values moves and all the others are held still.

Whenever a value that has a name comes into being, the memory notes what it would be, and then puts there what it was in
a plain run. So a number added to one value reaches only those that are computed from it with no other name between.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from random_programs.interpreter import Interpreter
from random_programs.memory import Memory, Nudges, Tensor

Blocks = dict[int, dict[int, np.ndarray]]
"""A Jacobian block, a row for every element of the first moment's value and a column for every one of the second's."""


class StillMemory(Memory):
    """Notes what comes to each moment, and holds the values that are named as they were."""

    def __init__(self, nudges: Nudges, rows: int, held: Mapping[int, np.ndarray]) -> None:
        super().__init__(nudges, rows)
        self.held = held
        self.came: dict[int, np.ndarray] = {}
        self.places: dict[int, tuple[int, np.ndarray]] = {}  # of a moment: its base's moment, and where it lies in it
        self.families: dict[int, int] = {}
        self.kept: list[object] = []  # families, so that no other gets the identity of one that is gone
        self.parts: set[int] = set()  # views when they were written through: the base's new value, seen in part

    def nudged(self, moment: int, value: np.ndarray) -> np.ndarray:
        self.came[moment] = np.broadcast_to(value, (self.rows, value.shape[1]))
        return super().nudged(moment, np.broadcast_to(self.held.get(moment, value), value.shape))

    def made(self, value: np.ndarray, is_scalar: bool = False) -> Tensor:
        return self.placed(super().made(value, is_scalar))

    def viewed(self, owner: Tensor, index: int | slice) -> Tensor:
        return self.placed(super().viewed(owner, index))

    def written(self, through: Tensor, value: np.ndarray) -> None:
        super().written(through, value)
        for each in through.family:
            self.placed(each)
        if through is not through.family[0]:
            self.parts.add(through.moment)

    def placed(self, tensor: Tensor) -> Tensor:
        base = tensor.family[0]
        self.places[tensor.moment] = (base.moment, tensor.positions)
        self.families[tensor.moment] = id(base.family)
        self.kept.append(base.family)
        return tensor


class StillInterpreter(Interpreter):
    """Runs a program on such a memory."""

    memory: StillMemory

    def __init__(self, nudges: Nudges, rows: int, held: Mapping[int, np.ndarray]) -> None:
        super().__init__()
        self.memory = StillMemory(nudges, rows, held)


@dataclass(frozen=True)
class Plain:
    """A plain run: its memory, and the moments that are recorded on an edge of their own."""

    memory: StillMemory
    moments: tuple[int, ...]


def plain_run(program: str) -> Plain:
    oracle = StillInterpreter({}, 1, {})
    oracle.run(program)
    memory = oracle.memory
    named = [binding.moment for binding in oracle.names.bindings if binding.moment is not None]
    own = {memory.places[moment][0] if moment in memory.parts else moment for moment in named}
    return Plain(memory, tuple(sorted(own)))


def local_blocks(program: str, run: Plain, step: float) -> Blocks:
    """Central differences of every recorded value by every element of every other one, all in one run."""
    held = {moment: run.memory.came[moment] for moment in run.moments}
    rows, nudges = 0, {}
    for moment, value in held.items():
        size = value.shape[1]
        nudges[moment] = (np.arange(rows, rows + 2 * size), np.tile(np.arange(size), 2), np.repeat([step, -step], size))
        rows += 2 * size
    moved = StillInterpreter(nudges, rows, held)
    moved.run(program)
    blocks: Blocks = {}
    for value, came in moved.memory.came.items():
        if value in held:
            blocks[value] = {}
            for moment, (at, _, _) in nudges.items():
                up, down = came[at].reshape(2, -1, came.shape[1])
                blocks[value][moment] = ((up - down) / (2 * step)).T
    return blocks
