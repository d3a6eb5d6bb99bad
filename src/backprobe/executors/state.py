"""The random state that a program's results depend on, captured when the work was created."""

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
        """Capture the random states of this process."""
        return cls([read() for read, _ in backend.state(None).random_states()])

    def restore(self, backend: HasState) -> None:
        """Set the random states, so that this process then draws the same numbers."""
        for (_, write), state in zip(backend.state(None).random_states(), self.states, strict=True):
            write(state)
