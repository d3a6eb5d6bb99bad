"""The random states of Python and NumPy. Each is a pair of functions, which read and write the state."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy

from backprobe.backends.patching import listening

GENERATORS = (numpy.random.Generator, numpy.random.RandomState, random.Random)
RandomState = tuple[Callable[[], Any], Callable[[Any], Any]]

OF_PYTHON: tuple[RandomState, ...] = (
    (random.getstate, random.setstate),
    (numpy.random.get_state, numpy.random.set_state),
)


def generators_of_numpy(held: Iterable[Any]) -> list[RandomState]:
    """Return the states of the NumPy and Python generators among the values that a program holds."""
    return [_state(one) for one in {id(one): one for one in held if isinstance(one, GENERATORS)}.values()]


@contextmanager
def hearing_generators(made: Callable[[RandomState], None]) -> Iterator[None]:
    """Within this context ``made`` receives the state of each generator that this thread makes by ``default_rng`` of
    NumPy, before the program draws from it.
    """

    def make(following: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        generator = following(*args, **kwargs)
        made(_state(generator))
        return generator

    with listening(numpy.random, "default_rng", make):
        yield


def seed_python(seed: int) -> None:
    """Seed the random numbers of Python and NumPy."""
    random.seed(seed)
    numpy.random.seed(seed % 2**32)


def _state(generator: Any) -> RandomState:
    if isinstance(generator, numpy.random.Generator):
        held = generator.bit_generator
        return lambda: held.state, lambda state: setattr(held, "state", state)
    return (
        (generator.getstate, generator.setstate)
        if isinstance(generator, random.Random)
        else (generator.get_state, generator.set_state)
    )


class RandomNumbers:
    """The random states at the time when this object is created, for repeating a call later.

    >>> numbers = RandomNumbers(OF_PYTHON)
    >>> first = random.random()
    >>> numbers.restore()
    >>> first == random.random()
    True
    """

    def __init__(self, states: Sequence[RandomState]) -> None:
        self.states = [(write, read()) for read, write in states]

    def restore(self) -> None:
        """Restore the states, so that the same random numbers are drawn again."""
        for write, state in self.states:
            write(state)


@contextmanager
def put_back(states: Sequence[RandomState]) -> Iterator[None]:
    """Restore these random states after this context."""
    before = [read() for read, _ in states]
    try:
        yield
    finally:
        for (_, write), state in zip(states, before, strict=True):
            write(state)
