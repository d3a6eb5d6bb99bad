"""Variations: the same values with what rounding may change in them, to measure how much a program makes of that."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Variation:
    """What becomes of floating-point numbers: cast to ``dtype``, and moved by one ulp up or down, as ``seed`` draws it.

    Either may be None. Then nothing is cast, or moved.
    """

    seed: int | None = None
    dtype: str | None = None


class Variations(Protocol):
    """How a framework varies its values."""

    @abstractmethod
    def varied(self, value: Any, variation: Variation, number: int, undo: list[Callable[[], None]]) -> Any:
        """A floating-point tensor or a model, varied; None for anything else.

        ``number`` tells it from others that are varied with the same seed. Where it is the value itself that varies,
        ``undo`` gets what puts it back.
        """

    @contextmanager
    def same_numbers(self) -> Iterator[None]:
        """After this context random numbers come as if none had been drawn in it."""
        from backprobe.backends.random_states import OF_PYTHON, put_back  # which imports NumPy

        with put_back(OF_PYTHON):
            yield
