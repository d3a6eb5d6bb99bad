"""The interface of checking to a framework: to hear of the calls that a program makes, and to make one of them again.

Whatever is compared is compared in NumPy, in double precision, real or complex: nothing here knows a framework.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from backprobe.record.reasons import Reason
from backprobe.source.followed_calls import Callables

CAPTURED = Reason("captured")
"""A note of an operation: tensors that are differentiated are in closures, or in modules that are reached so."""

DERIVES = Reason("derives")
"""A note of an operation that gives derivatives, of whatever order: differences were taken of these."""

HELD = Reason("held")
"""Why a call is not checked that was given nothing that is differentiated, and makes something that is."""


@dataclass(frozen=True)
class Input:
    """A floating tensor that a call was given, and with respect to which it is differentiated.

    ``place`` is the argument that holds it, by position or keyword, or empty for what the function itself holds;
    ``path`` is where in that, empty for the argument itself. ``value`` is a float64 or complex128 array.
    """

    place: str
    path: str
    value: Any


@dataclass(frozen=True)
class UncheckedCalls:
    """What a run differentiated outside of the calls that are accounted for, one for each time, in order.

    ``custom`` are names of functions whose derivative was written by hand, ``own`` of operations of the framework's,
    ``hooked`` of modules and tensors with hooks. ``remedy`` is what to do where nothing was differentiated at all.
    """

    custom: Sequence[str] = ()
    own: Sequence[str] = ()
    hooked: Sequence[str] = ()
    remedy: str = ""

    @classmethod
    def of(cls, flows: Sequence[tuple[str, bool]]) -> UncheckedCalls:
        """From names, each with whether its derivative was written by hand."""
        return cls([name for name, by_hand in flows if by_hand], [name for name, by_hand in flows if not by_hand])


class Operation(Protocol):
    """One call that was made, as a function of numbers that can be made again on copies of what it was given."""

    @property
    def inputs(self) -> Sequence[Input]: ...

    @property
    def epsilon(self) -> float:
        """The rounding of the least precise of what goes in, comes out, and is cast to in between as far as is seen."""
        ...

    @property
    def is_custom(self) -> bool:
        """Is its derivative written by hand, or that of something inside it: is it a custom function, or does it call
        one?
        """
        ...

    @property
    def notes(self) -> Sequence[Reason]:
        """What was done to make it again: which precision it has, which random state was restored."""
        ...

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs that are differentiated, at these values of the inputs. Raises what the call itself raises."""
        ...

    def pull(self, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """The vector-Jacobian product with respect to each input as the framework has it; None where that gives none.

        Of complex values it is the gradient of the real part of the inner product with the cotangents, in PyTorch's
        convention.
        """
        ...


class Repeated(Operation, Protocol):
    """An operation of which it is not known yet whether it can be made again."""

    def why_it_fails(self) -> Reason | None:
        """Make it once. Why that fails, or None; what is coarse or custom inside it is known then."""
        ...


R = TypeVar("R", bound=Repeated)


def repeatable(make: Callable[[bool, Sequence[Reason]], R], notes: Sequence[Reason]) -> R | Reason:
    """The operation that ``make`` returns in double precision, or where that fails in its own; else why both fail."""
    failed = None
    for double in (True, False):
        operation = make(double, notes)
        failed = operation.why_it_fails()
        if failed is None:
            return operation
        notes = [*notes, Reason(f"{failed.code}_in_double", failed.fields)]
    assert failed is not None
    return failed


def first_line(error: BaseException) -> str:
    """The type of an error and the first line of what it says."""
    said = str(error).splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


class Heard(Protocol):
    """A call that is about to be made: copies of its arguments, for it may write to them."""

    def returned(self, result: Any) -> Operation | Reason | None:
        """The call has returned. None where nothing is differentiated; a reason where it can't be made again."""
        ...


class Recheck(Callables, Protocol):
    """One run of a program whose calls are observed, and repeated."""

    @abstractmethod
    def run(self, program: Callable[[Any, Mapping[str, Any]], Any], target: Any, inputs: Mapping[str, Any]) -> None:
        """Run a program of a target and its inputs, the floating ones made differentiable, as the probe does it.

        Containers of the caller's are given back as they were.
        """
        ...

    def paths(self, model: Any) -> Mapping[int, str]:
        """The modules of a model by identity, and their paths."""
        return {}

    def opens(self, function: Any) -> bool:
        """Is it a library's module that contains modules of your own, to be followed as if it were yours?"""
        return False

    @abstractmethod
    def is_whole(self, function: Any) -> bool:
        """Is it a user's function with a derivative of its own, so that it is checked as a whole?"""
        ...

    @abstractmethod
    def hear(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Heard | Reason | None:
        """A call is about to be made. None where it can't be differentiated; a reason where it can't be checked.

        Nothing is said of that if it turns out to differentiate nothing."""
        ...

    @abstractmethod
    def now(self) -> int:
        """A number that grows with each operation that is differentiated."""
        ...

    @abstractmethod
    def account_for(self, since: int) -> None:
        """A call that was made since then is accounted for: as checked, as not checked and why, or as skipped."""
        ...

    @abstractmethod
    def unaccounted(self) -> UncheckedCalls: ...

    @abstractmethod
    def release(self) -> None:
        """Keep nothing any longer."""
        ...
