"""The interface of checking to a framework: the calls that a program makes, recorded so that each can be made again.

Whatever is compared is compared in NumPy, in double precision, real or complex: nothing here knows a framework.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from types import BuiltinFunctionType, MethodType, MethodWrapperType
from typing import Any

from backprobe.backends.pure_calls import closed_over, why_not_given
from backprobe.record.containers import leaves, refilled
from backprobe.record.quoted_errors import first_line
from backprobe.record.reasons import Reason
from backprobe.source.followed_calls import Callables

METHODS = (BuiltinFunctionType, MethodType, MethodWrapperType)

Program = Callable[[Any, Mapping[str, Any]], Any]
"""A program of a target and its inputs: those with a number for a name are positional."""

Given = tuple[Any, tuple[Any, ...], Mapping[str, Any]]
"""What a call computes from: what the function itself holds, the arguments, and the keyword arguments."""


@dataclass(frozen=True)
class Input:
    """A floating tensor that a call was given, and with respect to which it is differentiated.

    ``place`` is the argument that holds it, by position or keyword, or empty for what the function itself holds;
    ``path`` is where in that, empty for the argument itself.
    """

    place: str
    path: str


class Recheck(Callables):
    """One run of a program whose calls are recorded, and repeated."""

    recorded: type[RecordedCall]
    has_transforms = False  # is it known when a call is made whether its derivative will be differentiated?

    def __init__(self) -> None:
        self.flows: list[tuple[str, bool]] = []  # what was differentiated; was its derivative written by hand?
        self.hooked: dict[str, None] = {}  # modules and tensors with hooks, which are not called again
        self.differentiates_twice = False  # does the program compute gradients that are differentiated again?
        self.remedy = ""  # what to do where nothing was differentiated at all

    @abstractmethod
    def run(self, program: Program, target: Any, inputs: Mapping[str, Any], undo: list[Callable[[], None]]) -> None:
        """Run a program of a target and its inputs, the floating ones made differentiable, as the probe does it.

        What puts back the old leaves of the caller's own containers is added to ``undo``.
        """

    def paths(self, model: Any) -> Mapping[int, str]:
        """The modules of a model by identity, and their paths."""
        return {}

    def opens(self, function: Any) -> bool:
        """Is it a library's module that contains modules of your own, to be followed as if it were yours?"""
        return False

    @abstractmethod
    def is_whole(self, function: Any) -> bool:
        """Is it a user's function with a derivative of its own, so that it is checked as a whole?"""

    # derivatives that the program itself computes

    def differentiates(self, function: Any) -> int:
        """How often it differentiates the functions that it calls meanwhile, as what ``jax.grad`` returns does once."""
        return 0

    def differentiated_by(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]] | None:
        """The function of which a function computes derivatives, and what it is given; None where it computes none."""
        return None

    def unnoticed(self) -> AbstractContextManager[None]:
        """Within this context a function of the program is called once more, and draws the same random numbers."""
        return nullcontext()

    def is_differentiated_twice(self, since: int, until: int) -> bool:
        """Is a gradient that the program differentiates computed through what was made in between?"""
        return True

    # calls

    def record(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RecordedCall | Reason | None:
        """A call is about to be made. None where it can't be differentiated; a reason where it can't be checked.

        Nothing is said of that if it turns out to differentiate nothing.
        """
        if isinstance(function, partial):
            return self.record(function.func, (*function.args, *args), {**function.keywords, **kwargs})
        if isinstance(function, type):
            return None
        pure, held = self.split(function)
        given = held, args, dict(kwargs)
        tensors = [leaf for _, leaf in self.leaves(given) if self.is_tensor(leaf)]
        reason = self.why_not(function, tensors) or why_not_given(args, kwargs, self.is_copied)
        if reason is None and not self.is_custom(function) and not any(map(self.is_differentiated, tensors)):
            return Reason("held")  # of what it differentiates nothing is an argument
        return reason or self.recorded(self, function, pure, given)

    def record_inside(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RecordedCall | Reason:
        """The same of a function that is given to a transform, which may call it more than once in any case."""
        pure, held = self.split(function)
        return why_not_given(args, kwargs, self.is_copied) or self.recorded(self, function, pure, (held, args, kwargs))

    def split(self, function: Any) -> tuple[Callable[..., Any], Any]:
        """A function as one of what it holds itself and of its arguments, and what that is; None where it is nothing.

        Here it is the tensor that a method belongs to.
        """
        owner = self.owner(function)
        if owner is None:
            return lambda held, /, *args, **kwargs: function(*args, **kwargs), None
        by_name = lambda held, /, *args, **kwargs: getattr(held, function.__name__)(*args, **kwargs)  # noqa: E731
        return getattr(function, "__func__", by_name), owner

    def owner(self, function: Any) -> Any:
        """The tensor that a method belongs to; None for any other function."""
        owner = getattr(function, "__self__", None) if isinstance(function, METHODS) else None
        return owner if self.is_tensor(owner) else None

    @abstractmethod
    def why_not(self, function: Any, tensors: Sequence[Any]) -> Reason | None:
        """Why a function is not called again: it might do something that is seen elsewhere. None where it may be."""

    @abstractmethod
    def is_copied(self, leaf: Any) -> bool:
        """Does each repetition get its own copy of this argument, or can't it change it?"""

    @abstractmethod
    def is_custom(self, function: Any) -> bool:
        """Has it a derivative that was written by hand?"""

    # tensors

    def leaves(self, value: Any) -> Iterable[tuple[str, Any]]:
        """What a container holds, each with its path."""
        return leaves(value)

    def refilled(self, value: Any, replace: Callable[[Any], Any]) -> Any:
        """A copy of a container with each leaf replaced."""
        return refilled(value, replace)

    @abstractmethod
    def is_tensor(self, value: Any) -> bool: ...

    @abstractmethod
    def is_differentiated(self, leaf: Any) -> bool: ...

    # what is accounted for

    def now(self) -> int:
        """A number that grows with each operation that is differentiated."""
        return len(self.flows)

    def account_for(self, since: int) -> None:
        """A call that was made since then is accounted for: as checked, as not checked and why, or as skipped."""
        del self.flows[since:]

    def unaccounted(self) -> Sequence[tuple[str, bool]]:
        """What was differentiated, and is not accounted for."""
        return self.flows

    @abstractmethod
    def release(self) -> None:
        """Keep nothing any longer."""


class RecordedCall(ABC):
    """A call that is about to be made; when it has returned, a function of numbers that can be made again on copies.

    ``inputs`` are then what is differentiated of what it was given, by identity. ``epsilon`` is the rounding of the
    least precise of what goes in, comes out, and is cast to in between as far as is seen. ``is_custom`` is whether its
    derivative is written by hand, or that of something inside it, ``may_have_rules`` whether one may be that was not
    seen, ``derives`` whether it differentiates itself.
    ``notes`` are what was done to make it again: which precision it has, which random state was restored.
    """

    def __init__(self, recheck: Recheck, function: Any, pure: Callable[..., Any], given: Given) -> None:
        self.recheck, self.function, self.pure = recheck, function, pure
        self.given: Given = recheck.refilled(given, lambda leaf: leaf)  # its containers, too, may be written to
        self.tensors = {id(leaf): self.kept(leaf) for _, leaf in recheck.leaves(self.given) if recheck.is_tensor(leaf)}
        self.constants: dict[int, Any] = {}  # what takes the place of each tensor, unless it is an input
        self.inputs: dict[int, Input] = {}
        self.values: list[Any] = []  # of each input a float64 or complex128 array
        self.outputs: frozenset[str] = frozenset()  # the paths of those that are differentiated
        self.notes: list[Reason] = []
        self.is_custom, self.may_have_rules, self.derives = recheck.is_custom(function), False, False
        self.double, self.epsilon = True, 0.0

    def returned(self, result: Any) -> RecordedCall | Reason | None:
        """The call has returned. None where nothing is differentiated; a reason where it can't be made again.

        It is made again in double precision, or where that fails in its own.
        """
        differentiated = self.recheck.is_differentiated
        self.outputs = frozenset(path for path, leaf in self.recheck.leaves(result) if differentiated(leaf))
        reason = self.why_not_again() if self.outputs else None
        if reason is not None or not self.outputs:
            return reason
        called = () if self.given[0] is not None else (self.function, inspect.unwrap(self.function))
        captured = (leaf for held in closed_over((*called, *self.given)) for _, leaf in self.recheck.leaves(held))
        if any(map(self.is_captured, captured)):
            self.notes.append(Reason("captured"))
        for self.double in (True, False):
            reason = self._why_it_fails()
            if reason is None:
                return self if self.inputs else Reason("held")
            self.notes.append(Reason(f"{reason.code}_in_double", reason.fields))
        return reason

    def _why_it_fails(self) -> Reason | None:
        # Make the call once. Why that fails, or None; what is coarse or custom inside it is known then.
        try:
            self._take_inputs()
            outputs, coarsest = self.attempt()
        except Exception as error:  # noqa: BLE001  # whatever it is: it is the program's, and reported
            return Reason("raises", {"error": first_line(error)})
        if len(outputs) != len(self.outputs):
            return Reason("other_outputs")
        self.epsilon = max([coarsest, *map(self.rounding, [*outputs, *(self.constants[key] for key in self.inputs)])])
        return None

    def _take_inputs(self) -> None:
        self.constants = {key: self.cast(tensor) for key, tensor in self.tensors.items()}
        self.inputs, self.values = {}, []
        held, args, kwargs = self.given
        for place, value in {"": held, **{str(at): arg for at, arg in enumerate(args)}, **kwargs}.items():
            for path, leaf in self.recheck.leaves(value):
                if self.recheck.is_differentiated(leaf) and id(leaf) not in self.inputs:
                    path = path.replace("`", "")  # which names need and the source does not have
                    self.inputs[id(leaf)] = Input(place, path)
                    self.values.append(self.numbers(self.constants[id(leaf)]))

    def call(self, made: Mapping[int, Any]) -> list[Any]:
        """Make the call with these tensors in the places of those it was given: its outputs."""
        held, args, kwargs = self.recheck.refilled(self.given, lambda leaf: made.get(id(leaf), leaf))
        result = self.pure(held, *args, **kwargs)
        return [leaf for path, leaf in self.recheck.leaves(result) if path in self.outputs]

    def why_not_again(self) -> Reason | None:
        """Why it can't be made again, as is known now that it has returned."""
        return None

    def is_captured(self, leaf: Any) -> bool:
        """Is what a function closes over differentiated, with nothing comparing its derivative with respect to it?"""
        return self.recheck.is_differentiated(leaf)

    @abstractmethod
    def kept(self, tensor: Any) -> Any:
        """A tensor as it is before the call, which may write to it."""

    @abstractmethod
    def cast(self, tensor: Any) -> Any:
        """It in double precision, if the call is made in that."""

    @abstractmethod
    def rounding(self, tensor: Any) -> float: ...

    @abstractmethod
    def numbers(self, tensor: Any) -> Any:
        """Its numbers as a float64 or complex128 array."""

    def all_numbers(self, found: Sequence[Any]) -> list[Any]:
        """The numbers of each gradient; None of one that does not exist."""
        return [None if one is None else self.numbers(one) for one in found]

    @abstractmethod
    def attempt(self) -> tuple[list[Any], float]:
        """Make it once, on the inputs as they were: the outputs, and the rounding of the coarsest cast inside."""

    @abstractmethod
    def pull_twice(self, values: Sequence[Any], cotangents: Sequence[Any], seconds: Sequence[Any]) -> list[Any]:
        """The vector-Jacobian product of ``pull``, with respect to each input and then each cotangent."""

    @abstractmethod
    def run(self, values: Sequence[Any]) -> list[Any]:
        """The outputs that are differentiated, at these values of the inputs. Raises what the call itself raises."""

    def push(self, values: Sequence[Any], at: int, direction: Any) -> list[Any] | None:
        """How the outputs move along a direction of one input, differentiated forward; None where nothing does that."""
        return None

    @abstractmethod
    def pull(self, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """The vector-Jacobian product with respect to each input as the framework has it; None where that gives none.

        Of complex values it is the gradient of the real part of the inner product with the cotangents, in PyTorch's
        convention.
        """
