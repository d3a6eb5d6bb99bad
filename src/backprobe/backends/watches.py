"""The capability that ``bp.watch`` needs of a framework: statistics of a model's values, reported while it trains."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

VALUE, GRADIENT, BACKWARD, PARAMETER, UPDATE = "value", "grad", "grad_backward", "param", "update"
"""The kinds of numbers that are watched."""


@dataclass(frozen=True)
class WatchOptions:
    """What is watched of a model, and what ends its steps."""

    select: str | Sequence[str] | None = None
    values: bool = True
    gradients: bool = True
    parameters: bool = True
    updates: bool = False
    clipping: bool = False
    optimizers: tuple[Any, ...] = ()
    scaler: Any = None


class StepListener(Protocol):
    """What is told of a training. Nothing of it waits for a device."""

    is_measured: bool
    """Is the current step one whose statistics are taken?"""

    is_counted: bool
    """Are magnitudes counted in it as well?"""

    @abstractmethod
    def place(self, name: str, kind: str, *, is_replicated: bool = False, is_scaled: bool = False) -> int:
        """The place of a row, the same for the same name and kind.

        ``is_replicated``: each process has all of its numbers. ``is_scaled``: they carry the scale of the loss.
        """

    @abstractmethod
    def alias(self, alias: str, name: str) -> None:
        """Another name of a row."""

    @abstractmethod
    def begin(self) -> None:
        """Something of the current step has run."""

    @abstractmethod
    def add(self, place: int, row: Any, replaces: bool = False) -> None:
        """Numbers of the current step, as a row or what becomes one later: merged with what is there, or instead."""

    @abstractmethod
    def count(self, place: int, exponents: Any, replaces: bool = False) -> None:
        """Magnitudes of the current step's numbers."""

    @abstractmethod
    def passed(self) -> None:
        """A pass of backward has begun."""

    @abstractmethod
    def end(self, *, skipped: bool = False, scale: float = 1.0) -> None:
        """The step is over; its loss was multiplied by ``scale``."""


class Watching(AbstractContextManager["Watching"], Protocol):
    """A model that is watched, while its context is open."""

    @abstractmethod
    def step(self) -> None:
        """A step ends here, where no optimizer says so."""

    @abstractmethod
    def stop(self) -> None:
        """Watch no more; the program goes on as if nothing had been watched."""


class ScriptListener(Protocol):
    """What is told of a script whose models are not known."""

    @abstractmethod
    def found(self, model: Any, optimizers: Sequence[Any], scaler: Any) -> None:
        """The script is about to call a model that these optimizers train, for the first time."""

    @abstractmethod
    def lost(self, loss: Any) -> None:
        """``backward()`` is about to run on one number, which nothing has scaled."""


class Watches(Protocol):
    """The capability of a backend."""

    @abstractmethod
    def watching(self, model: Any, options: WatchOptions, listener: StepListener, asked: str) -> Watching:
        """What watches a model. Raises Unsupported, NothingMatched, BadName and BadOption."""

    def untrained(self, model: Any, options: WatchOptions) -> Mapping[str, list[str]]:
        """The names of parameters that are ``frozen`` as the training begins, and that are ``left_out`` of it."""
        return {}

    def script(self, listener: ScriptListener) -> AbstractContextManager[None] | None:
        """While this is open, the models that the program trains are found; None where that is not known how."""
        return None

    def rank(self) -> int:
        """The number of this process, of several that train together."""
        return 0

    @abstractmethod
    def scalar(self, number: Any) -> Any:
        """The row, now or later, of a single number that the program logs. Raises TypeError for anything else."""

    @abstractmethod
    def later(self, rows: Mapping[int, Any]) -> Callable[[], Mapping[int, tuple[float, ...]]]:
        """What fetches the rows that were not known at once; it may be called in another thread, and waits."""
