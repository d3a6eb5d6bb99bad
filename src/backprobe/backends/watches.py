"""Statistics of what a model or a loss function computes: the interface of ``bp.watch`` to a framework."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from backprobe.record.gaps import GapCode
from backprobe.record.source import Source

VALUE, GRADIENT, BACKWARD, PARAMETER, UPDATE = "value", "grad", "grad_backward", "param", "update"
"""The kinds of numbers that are watched."""


@dataclass(frozen=True)
class WatchOptions:
    """What is watched in a model, and what ends its steps."""

    select: str | Sequence[str] | None = None
    values: bool = True
    gradients: bool = True
    parameters: bool = True
    updates: bool = False
    clipping: bool = False
    optimizers: tuple[Any, ...] = ()
    scaler: Any = None
    magnitudes: bool = False
    argnums: int | Sequence[int] = 0
    has_aux: bool = False

    @property
    def kinds(self) -> tuple[bool, bool, bool, bool]:
        return self.values, self.gradients, self.parameters, self.updates

    @property
    def of_parameters(self) -> bool:
        """Does any watched kind of number belong to parameters?"""
        return any(self.kinds[1:])


class StepListener(Protocol):
    """Receives reports about a training. No method waits for a device."""

    is_measured: bool
    """Are statistics taken in the current step?"""

    is_counted: bool
    """Are magnitudes counted in the current step, too?"""

    @abstractmethod
    def place(self, name: str, kind: str, *, is_replicated: bool = False, is_scaled: bool = False) -> int:
        """The place of a row, always the same for the same name and kind.

        ``is_replicated``: each process has all numbers of the row. ``is_scaled``: the numbers are multiplied by the
        scale of the loss.
        """

    @abstractmethod
    def alias(self, alias: str, name: str) -> None:
        """Another name of a row."""

    @abstractmethod
    def line(self, name: str, line: Source) -> None:
        """The line of the program in which a module is called, or a local is bound; only the first one counts."""

    @abstractmethod
    def begin(self) -> None:
        """A part of the current step has run."""

    @abstractmethod
    def add(self, place: int, row: Any, replaces: bool = False) -> None:
        """Add numbers of the current step: a row, or an object that becomes a row later. They are merged with earlier
        numbers of the step, or replace these.
        """

    @abstractmethod
    def add_columns(self, places: Sequence[int], columns: Callable[[], Any]) -> None:
        """Add numbers for many places. The function returns their columns later, float64[10, n], and may wait.

        Each place occurs once, and none of them is scaled.
        """

    @abstractmethod
    def count(self, place: int, exponents: Any, replaces: bool = False) -> None:
        """Add counts of magnitudes in the current step, or a function that returns these later, and may wait."""

    @abstractmethod
    def leave_out(self, place: int) -> None:
        """Forget the numbers of the current step at a place."""

    @abstractmethod
    def missing(self) -> list[tuple[str, str]]:
        """The names and kinds that had rows earlier, but have none in the current step."""

    @abstractmethod
    def has(self, name: str, kind: str) -> bool:
        """Did this name and kind ever have a row?"""

    @abstractmethod
    def gaps(self, found: list[tuple[str, str, GapCode]]) -> None:
        """Everything without a row in the current step: names, kinds and reasons."""

    @abstractmethod
    def passed(self) -> None:
        """A backward pass has begun."""

    @abstractmethod
    def end(self, *, skipped: bool = False, scale: float = 1.0, uncleared: int = 0) -> None:
        """The step is over; its loss was multiplied by ``scale``.

        The gradients of ``uncleared`` parameters were added to those of the previous step.
        """


class Watching(AbstractContextManager["Watching"], Protocol):
    """A model or a loss function that is watched, while its context is open."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def step(self) -> None:
        """Ends a step, if no optimizer does."""

    @abstractmethod
    def stop(self) -> None:
        """Stop watching; the program continues as if nothing had been watched."""


class ScriptListener(Protocol):
    """Receives reports about a script whose models are not known."""

    @abstractmethod
    def found(self, model: Any, optimizers: Sequence[Any], scaler: Any) -> None:
        """The script is about to call a model that these optimizers train, for the first time."""

    @abstractmethod
    def lost(self, loss: Any) -> None:
        """``backward()`` is about to run on a single number that nothing has scaled."""


class Fetching(Protocol):
    """How numbers of a framework get into a run."""

    def rank(self) -> int:
        """The number of this process among several that train together."""
        return 0

    @abstractmethod
    def scalar(self, number: Any) -> Any:
        """The row, now or later, of a single number that the program logs. Raises TypeError for anything else."""

    @abstractmethod
    def later(self, rows: Mapping[int, Any]) -> Callable[[], Mapping[int, tuple[float, ...]]]:
        """A function that waits for rows that were not known at once. Another thread may call it."""


class Watches(Fetching, Protocol):
    """The capability of a backend to watch models."""

    @abstractmethod
    def watching(self, model: Any, options: WatchOptions, listener: StepListener, asked: str) -> Watching:
        """An object that watches a model. Raises Unsupported, NothingMatched, BadName and BadOption."""

    def untrained(self, model: Any, options: WatchOptions) -> Mapping[str, list[str]]:
        """The names of parameters that are ``frozen`` when training begins, and of those ``left_out`` of training."""
        return {}

    def script(self, listener: ScriptListener) -> AbstractContextManager[None] | None:
        """While this is open, the models that the program trains are found; None if that is not supported."""
        return None


# loss functions


@dataclass(frozen=True)
class DifferentiatedLoss:
    """The result of running a loss function under a probe."""

    result: Any
    values: Sequence[tuple[str, Any, Any]]
    """Name, value and gradient of each computed value; None for a missing gradient."""

    aliases: Sequence[tuple[str, str]]
    """Other names, and the names for which they stand."""

    lines: Sequence[tuple[str, Source]]
    """The names of the computed values, each with its line of the program."""

    inputs: Sequence[Any]
    """The gradient of each differentiated leaf, in the order of the arguments, or None."""

    wants: Callable[[str], bool]
    """Is a parameter of this name selected?"""


class LossProbe(Protocol):
    """Runs a loss function under a probe."""

    @abstractmethod
    def __call__(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], wrt: Sequence[str], parameters: Sequence[str]
    ) -> DifferentiatedLoss:
        """``wrt`` are the arguments to differentiate, ``parameters`` the names of their contents."""


class FunctionWatching(Watching, Protocol):
    """A loss function that is watched."""

    @abstractmethod
    def value_and_grad(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """``((loss, statistics), gradients)``, with auxiliary data ``(((loss, aux), statistics), gradients)``."""

    @abstractmethod
    def record(self, statistics: Any, updates: Any) -> None:
        """A step is over, and these are its statistics."""


class FunctionWatches(Fetching, Protocol):
    """The capability of a backend to watch functions that receive their parameters."""

    @abstractmethod
    def watching(
        self, function: Callable[..., Any], options: WatchOptions, listener: StepListener, probe: LossProbe, asked: str
    ) -> FunctionWatching:
        """An object that watches a loss function. Raises BadOption."""
