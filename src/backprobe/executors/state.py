"""The call of a verb, and the random states on which its results depend, as workers receive them."""

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


@dataclass(frozen=True)
class SentCall:
    """A verb that is waiting for its call, the arguments of the call, and the random states, as sent to a worker."""

    asked: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    state: GlobalState

    def backend(self) -> Any:
        """The backend of the target. The random states are set, so that this process draws the same numbers."""
        backend = self.asked._backend_of(self.args, self.kwargs)
        self.state.restore(backend)
        return backend
