"""Random states that a call may use: each as what reads it, and what writes it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy

from backprobe.backends.held_values import held_by
from backprobe.record.containers import leaves

GENERATORS = (numpy.random.Generator, numpy.random.RandomState, random.Random)
RandomState = tuple[Callable[[], Any], Callable[[Any], Any]]

OF_PYTHON: tuple[RandomState, ...] = (
    (random.getstate, random.setstate), (numpy.random.get_state, numpy.random.set_state)
)  # fmt: skip


def generators_of_numpy(target: Any, given: Any) -> list[RandomState]:
    """The states of generators of NumPy, and of Python, that a target holds, finds, or is given."""
    found = {id(one): one for one in held_by(target) if isinstance(one, GENERATORS)}
    found |= {id(leaf): leaf for _, leaf in leaves(given) if isinstance(leaf, GENERATORS)}
    return [_state(one) for one in found.values()]


def _state(generator: Any) -> RandomState:
    if isinstance(generator, numpy.random.Generator):
        held = generator.bit_generator
        return lambda: held.state, lambda state: setattr(held, "state", state)
    return (generator.getstate, generator.setstate) if isinstance(generator, random.Random) else (
        generator.get_state, generator.set_state
    )  # fmt: skip


class Kept:
    """Random states as they are when this is made, for a call that is made again.

    >>> kept = Kept(OF_PYTHON)
    >>> first = random.random()
    >>> with kept.restored():
    ...     again = random.random()
    >>> first == again
    True
    """

    def __init__(self, states: Sequence[RandomState]) -> None:
        self.states, self.numbers = states, [read() for read, _ in states]

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Within this context random numbers come as they did then; after it as if none had been drawn in it."""
        with put_back(self.states):
            for (_, write), numbers in zip(self.states, self.numbers, strict=True):
                write(numbers)
            yield


@contextmanager
def put_back(states: Sequence[RandomState]) -> Iterator[None]:
    """After this context random numbers come as if none had been drawn in it."""
    before = [read() for read, _ in states]
    try:
        yield
    finally:
        for (_, write), state in zip(states, before, strict=True):
            write(state)
