"""Statistics of what a model or a loss function computes: the interface of ``bp.watch`` to a framework."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import Any, Protocol

from backprobe.record.gaps import GapCode
from backprobe.record.source import Source

VALUE, GRADIENT, BACKWARD, PARAMETER, UPDATE = "value", "grad", "grad_backward", "param", "update"
"""The kinds of numbers that are watched."""


@dataclass(frozen=True)
class WatchOptions:
    """The options of a watch: what is watched in a model, and what ends its steps."""

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
        """Is any watched kind a number of parameters?"""
        return any(self.kinds[1:])


class StepListener(Protocol):
    """Receives the events of a training. No method waits for a device."""

    is_measured: bool
    """Are statistics computed in the current step?"""

    is_counted: bool
    """Are magnitudes counted in the current step, too?"""

    @abstractmethod
    def place(self, name: str, kind: str, *, is_replicated: bool = False, is_scaled: bool = False) -> int:
        """Return the place of a row, which is always the same for the same name and kind.

        ``is_replicated`` says that each process has all numbers of the row. ``is_scaled`` says that the numbers are
        multiplied by the scale of the loss.
        """

    @abstractmethod
    def alias(self, alias: str, name: str) -> None:
        """Add another name of a row."""

    @abstractmethod
    def line(self, name: str, line: Source) -> None:
        """Report the line of the program that calls a module or binds a local. Only the first line counts."""

    @abstractmethod
    def begin(self) -> None:
        """Report that a part of the current step has run."""

    @abstractmethod
    def add(self, place: int, row: Any, replaces: bool = False) -> None:
        """Add numbers to the current step: a row, or an object that becomes a row later. They are merged with earlier
        numbers of the step; with ``replaces`` they replace them.
        """

    @abstractmethod
    def add_columns(self, places: Sequence[int], columns: Callable[[], Any]) -> None:
        """Add numbers for many places. The function returns their columns later, as float64[10, n], and may wait for a
        device.

        Each place occurs once, and none of them is scaled.
        """

    @abstractmethod
    def count(self, place: int, exponents: Any, replaces: bool = False) -> None:
        """Add counts of magnitudes to the current step, or a function that returns such counts later and may wait for a
        device.
        """

    @abstractmethod
    def leave_out(self, place: int) -> None:
        """Drop the numbers of the current step at a place."""

    @abstractmethod
    def missing(self) -> list[tuple[str, str]]:
        """Return the names and kinds that had rows in earlier steps, but have none in the current step. Logged numbers
        are left out.
        """

    @abstractmethod
    def has(self, name: str, kind: str) -> bool:
        """Did this name and kind ever have a row?"""

    @abstractmethod
    def gaps(self, found: list[tuple[str, str, GapCode]]) -> None:
        """Report all rows that are missing in the current step: names, kinds and reasons."""

    @abstractmethod
    def passed(self) -> None:
        """Report that a backward pass has begun."""

    @abstractmethod
    def stepped(self) -> None:
        """Report that one of the optimizers has stepped, which does not yet end the step."""

    @abstractmethod
    def end(self, *, skipped: bool = False, scale: float = 1.0, uncleared: int = 0) -> None:
        """Report that the step has ended. Its loss was multiplied by ``scale``.

        The gradients of ``uncleared`` parameters were added to those of the previous step.
        """


class Watching(AbstractContextManager["Watching"], Protocol):
    """A model or a loss function that is watched until its context ends."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @abstractmethod
    def step(self) -> None:
        """End a step, if no optimizer ends it."""

    @abstractmethod
    def stop(self) -> None:
        """Stop watching. The program continues as if nothing had been watched."""


class ScriptListener(Protocol):
    """Receives the events of a script whose models are not known in advance."""

    @abstractmethod
    def found(self, model: Any, optimizers: Sequence[Any], scaler: Any) -> None:
        """Called when the script is about to call a model that these optimizers train, for the first time."""

    @abstractmethod
    def lost(self, loss: Any) -> None:
        """Called when ``backward()`` is about to run on a scalar that no gradient scaler has scaled."""

    @abstractmethod
    def compiled(self, functions: Sequence[CodeType]) -> None:
        """Called at the end, if the script has compiled these functions of its own. Models that only they call are not
        found.
        """


class Fetching(Protocol):
    """Converts numbers of a framework to rows of a run."""

    def rank(self) -> int:
        """Return the rank of this process among several that train together."""
        return 0

    @abstractmethod
    def scalar(self, number: Any) -> Any:
        """Return the row of a scalar that the program logs, as a value or an object that becomes a row later. Raises
        TypeError for anything else.
        """

    @abstractmethod
    def later(self, rows: Mapping[int, Any]) -> Callable[[], Mapping[int, tuple[float, ...]]]:
        """Return a function that waits for these rows to be computed and returns them. Another thread may call the
        function.
        """


class Watches(Fetching, Protocol):
    """The capability of a backend to watch models."""

    @abstractmethod
    def watching(self, model: Any, options: WatchOptions, listener: StepListener, asked: str) -> Watching:
        """Return an object that watches a model. Raises Unsupported, NothingMatched, BadName and BadOption."""

    def untrained(self, model: Any, options: WatchOptions) -> Mapping[str, list[str]]:
        """Return the names of parameters that are ``frozen`` when training begins, and of those ``left_out`` of all
        optimizers.
        """
        return {}

    def script(self, listener: ScriptListener) -> AbstractContextManager[None] | None:
        """Return a context in which the models that the program trains are found; None if that is not supported."""
        return None


# Classes for loss functions.


@dataclass(frozen=True)
class DifferentiatedLoss:
    """The result of running a loss function under a probe."""

    result: Any
    values: Sequence[tuple[str, Any, Any]]
    """The name, value and gradient of each computed value. A missing gradient is None."""

    aliases: Sequence[tuple[str, str]]
    """Pairs of an alias and the name of the row that the alias refers to."""

    lines: Sequence[tuple[str, Source]]
    """The name of each computed value, and the line of the program that computes it."""

    inputs: Sequence[Any]
    """The gradient of each differentiated leaf, in the order of the arguments; None if it has none."""

    wants: Callable[[str], bool]
    """Is the parameter with this name selected?"""


class LossProbe(Protocol):
    """Runs a loss function under a probe."""

    @abstractmethod
    def __call__(
        self, args: Sequence[Any], kwargs: Mapping[str, Any], wrt: Sequence[str], parameters: Sequence[str]
    ) -> DifferentiatedLoss:
        """Run the loss function. ``wrt`` are the names of the arguments to differentiate, ``parameters`` the names of
        their leaves.
        """


class FunctionWatching(Watching, Protocol):
    """A loss function that is watched."""

    @abstractmethod
    def value_and_grad(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return ``((loss, statistics), gradients)``, or with auxiliary data ``(((loss, aux), statistics),
        gradients)``.
        """

    @abstractmethod
    def record(self, statistics: Any, updates: Any) -> None:
        """Record the statistics of a step, which has ended."""


class FunctionWatches(Fetching, Protocol):
    """The capability of a backend to watch functions that receive their parameters."""

    @abstractmethod
    def watching(
        self, function: Callable[..., Any], options: WatchOptions, listener: StepListener, probe: LossProbe, asked: str
    ) -> FunctionWatching:
        """Return an object that watches a loss function. Raises BadOption."""
