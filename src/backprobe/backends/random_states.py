"""Random states that a call may use: each as what reads it, and what writes it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy

RandomState = tuple[Callable[[], Any], Callable[[Any], Any]]

OF_PYTHON: tuple[RandomState, ...] = (
    (random.getstate, random.setstate), (numpy.random.get_state, numpy.random.set_state)
)  # fmt: skip


@contextmanager
def put_back(states: Sequence[RandomState]) -> Iterator[None]:
    """After this context random numbers come as if none had been drawn in it."""
    before = [read() for read, _ in states]
    try:
        yield
    finally:
        for (_, write), state in zip(states, before, strict=True):
            write(state)
