"""The state of a process that a program computes by: its random numbers, as they are where it was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backprobe.backends.replay import HasState


@dataclass(frozen=True)
class GlobalState:
    """The random states of Python, NumPy and the framework."""

    states: Sequence[Any]

    @classmethod
    def of(cls, backend: HasState) -> GlobalState:
        """Those of this process."""
        return cls([read() for read, _ in backend.state(None).random_states()])

    def restore(self, backend: HasState) -> None:
        """From now on this process draws the same numbers."""
        for (_, write), state in zip(backend.state(None).random_states(), self.states, strict=True):
            write(state)
