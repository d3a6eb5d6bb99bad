"""Records the calls that a program makes, so that each can be repeated: the interface of ``bp.check`` to a framework.

All comparisons are made in NumPy, in double precision, real or complex. This file does not depend on a framework.
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
"""A program, called with a target and its inputs. Inputs whose names are numbers are positional."""

Given = tuple[Any, tuple[Any, ...], Mapping[str, Any]]
"""The operands of a call: the object to which the function is bound, the arguments, and the keyword arguments."""


@dataclass(frozen=True)
class Input:
    """A floating tensor that a call received. The call is differentiated with respect to it.

    ``place`` is the argument that contains the tensor, by position or keyword; it is empty for the object to which the
    function is bound. ``path`` is the place inside that argument; it is empty if the argument is the tensor.
    """

    place: str
    path: str


class Recheck(Callables):
    """One run of a program whose calls are recorded and repeated."""

    recorded: type[RecordedCall]
    # does the framework say during a call whether the call's derivative is differentiated again?
    has_transforms = False

    def __init__(self) -> None:
        self.flows: list[tuple[str, bool]] = []  # (differentiated function, was its derivative written by hand?)
        self.hooked: dict[str, None] = {}  # modules and tensors with hooks, which are not called again
        self.differentiates_twice = False  # may the program differentiate gradients that it has computed?
        self.remedy = ""  # the advice if nothing at all was differentiated

    @abstractmethod
    def run(self, program: Program, target: Any, inputs: Mapping[str, Any], undo: list[Callable[[], None]]) -> None:
        """Run a program with a target and its inputs. Floating inputs are made differentiable, as in a probe.

        ``undo`` receives functions that restore the leaves of the caller's own containers.
        """

    def paths(self, model: Any) -> Mapping[int, str]:
        """Return the path of each module of a model, by the identity of the module."""
        return {}

    def opens(self, function: Any) -> bool:
        """Return whether the function is a library's module that contains modules of the user. The calls inside such a
        module are recorded as well.
        """
        return False

    @abstractmethod
    def is_whole(self, function: Any) -> bool:
        """Return whether the function is checked as a whole, without the calls inside it, such as a function of the
        user that has a custom derivative.
        """

    # Methods for derivatives that the program itself computes.

    def differentiates(self, function: Any) -> int:
        """Return how often the function differentiates the function inside it. For the result of ``jax.grad`` that is
        once.
        """
        return 0

    def differentiated_by(
        self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]] | None:
        """For a function that computes derivatives, return the function that it differentiates and the arguments of
        that function; None otherwise.
        """
        return None

    def unnoticed(self) -> AbstractContextManager[None]:
        """Within this context a function of the program is called once more, with the same random numbers, and is not
        recorded.
        """
        return nullcontext()

    def is_differentiated_twice(self, since: int, until: int) -> bool:
        """Does the program differentiate a gradient that was computed by operations in this interval?"""
        return True

    # Methods for calls.

    def record(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RecordedCall | Reason | None:
        """Called when a call is about to be made. Returns None if it cannot be differentiated, and a reason if it
        cannot be checked.

        The reason is dropped if the call turns out to differentiate nothing.
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
            return Reason("held")  # no differentiated value is an argument
        return reason or self.recorded(self, function, pure, given)

    def record_inside(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> RecordedCall | Reason:
        """Record a call of a function that was passed to a transform. The transform may call it several times in any
        case.
        """
        pure, held = self.split(function)
        return why_not_given(args, kwargs, self.is_copied) or self.recorded(self, function, pure, (held, args, kwargs))

    def split(self, function: Any) -> tuple[Callable[..., Any], Any]:
        """Split a function into a function that also receives the bound object, and that object, which is None if there
        is none.

        In this base class the bound object is the tensor to which a method belongs.
        """
        owner = self.owner(function)
        if owner is None:
            return lambda held, /, *args, **kwargs: function(*args, **kwargs), None
        by_name = lambda held, /, *args, **kwargs: getattr(held, function.__name__)(*args, **kwargs)  # noqa: E731
        return getattr(function, "__func__", by_name), owner

    def owner(self, function: Any) -> Any:
        """Return the tensor to which a method belongs; None for any other function."""
        owner = getattr(function, "__self__", None) if isinstance(function, METHODS) else None
        return owner if self.is_tensor(owner) else None

    @abstractmethod
    def why_not(self, function: Any, tensors: Sequence[Any]) -> Reason | None:
        """Return why a function may not be called again, such as possible side effects; None if it may."""

    @abstractmethod
    def is_copied(self, leaf: Any) -> bool:
        """Does each repetition get its own copy of this argument, or can it not change the argument?"""

    @abstractmethod
    def is_custom(self, function: Any) -> bool:
        """Does the function have a derivative that was written by hand?"""

    # Methods for tensors.

    def leaves(self, value: Any) -> Iterable[tuple[str, Any]]:
        """Return the contents of a container, each with its path."""
        return leaves(value)

    def refilled(self, value: Any, replace: Callable[[Any], Any]) -> Any:
        """Return a copy of a container with each leaf replaced."""
        return refilled(value, replace)

    @abstractmethod
    def is_tensor(self, value: Any) -> bool: ...

    @abstractmethod
    def is_differentiated(self, leaf: Any) -> bool: ...

    # Methods for bookkeeping.

    def now(self) -> int:
        """Return a number that grows with each differentiated operation."""
        return len(self.flows)

    def account_for(self, since: int) -> None:
        """Forget the operations after this point (see ``now``), because the call that ran them was checked, skipped, or
        reported as not checkable.
        """
        del self.flows[since:]

    def unaccounted(self) -> Sequence[tuple[str, bool]]:
        """Return the differentiated operations that ``account_for`` has not forgotten."""
        return self.flows

    @abstractmethod
    def release(self) -> None:
        """Release all tensors that are held."""


class RecordedCall(ABC):
    """A call that is about to be made. After it has returned, it can be repeated as a function of numbers, on copies.

    ``inputs`` are the differentiated inputs of the call, by identity. ``epsilon`` is the rounding of the least precise
    dtype among inputs, outputs, and casts in between, as far as these are seen. ``is_custom`` says that the derivative
    of the call, or of something inside it, is written by hand. ``may_have_rules`` says that such a derivative may exist
    unseen. ``derives`` says that the call itself differentiates. ``notes`` say how the call was repeated: in which
    precision, and with which random state.
    """

    def __init__(self, recheck: Recheck, function: Any, pure: Callable[..., Any], given: Given) -> None:
        self.recheck, self.function, self.pure = recheck, function, pure
        self.given: Given = recheck.refilled(given, lambda leaf: leaf)  # copied: the call may write to containers
        self.tensors = {id(leaf): self.kept(leaf) for _, leaf in recheck.leaves(self.given) if recheck.is_tensor(leaf)}
        self.constants: dict[int, Any] = {}  # by identity: a copy of each tensor, in the precision of the repetition
        self.inputs: dict[int, Input] = {}
        self.values: list[Any] = []  # for each input, a float64 or complex128 array
        self.outputs: frozenset[str] = frozenset()  # the paths of the differentiated outputs
        self.notes: list[Reason] = []
        self.is_custom, self.may_have_rules, self.derives = recheck.is_custom(function), False, False
        self.double, self.epsilon = True, 0.0

    def returned(self, result: Any) -> RecordedCall | Reason | None:
        """Called after the call has returned. Returns None if nothing is differentiated, and a reason if the call
        cannot be repeated or has no differentiated input; otherwise this object.

        The call is repeated in double precision, or in its own precision if double fails.
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
        # Make the call once. Return why it fails, or None if it succeeds. Afterwards coarse casts and custom
        # derivatives inside the call are known.
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
                    path = path.replace("`", "")  # a source line has no back-quotes around segments
                    self.inputs[id(leaf)] = Input(place, path)
                    self.values.append(self.numbers(self.constants[id(leaf)]))

    def call(self, made: Mapping[int, Any]) -> list[Any]:
        """Make the call with these tensors instead of the original ones, by identity. Returns its outputs."""
        held, args, kwargs = self.recheck.refilled(self.given, lambda leaf: made.get(id(leaf), leaf))
        result = self.pure(held, *args, **kwargs)
        return [leaf for path, leaf in self.recheck.leaves(result) if path in self.outputs]

    def why_not_again(self) -> Reason | None:
        """Return why the call cannot be repeated, as far as known after it has returned; None if it can."""
        return None

    def is_captured(self, leaf: Any) -> bool:
        """Return whether the leaf is a differentiated value in the closure of a function. The derivative with respect
        to such a value is not checked.
        """
        return self.recheck.is_differentiated(leaf)

    @abstractmethod
    def kept(self, tensor: Any) -> Any:
        """Return a copy of a tensor, made before the call, which may write to it."""

    @abstractmethod
    def cast(self, tensor: Any) -> Any:
        """Return the tensor in double precision if the call is made in double precision."""

    @abstractmethod
    def rounding(self, tensor: Any) -> float: ...

    @abstractmethod
    def numbers(self, tensor: Any) -> Any:
        """Return the tensor's numbers as a float64 or complex128 array."""

    def all_numbers(self, found: Sequence[Any]) -> list[Any]:
        """Return the numbers of each gradient; None for a gradient that does not exist."""
        return [None if one is None else self.numbers(one) for one in found]

    @abstractmethod
    def attempt(self) -> tuple[list[Any], float]:
        """Make the call once, on the original inputs. Returns the outputs, and the rounding of the coarsest cast inside
        the call.
        """

    @abstractmethod
    def pull_twice(self, values: Sequence[Any], cotangents: Sequence[Any], seconds: Sequence[Any]) -> list[Any]:
        """Differentiate ``pull``: return its vector-Jacobian product with ``seconds``, with respect to each input and
        then each cotangent.
        """

    @abstractmethod
    def run(self, values: Sequence[Any]) -> list[Any]:
        """Return the differentiated outputs at these values of the inputs. Raises whatever the call raises."""

    def push(self, values: Sequence[Any], at: int, direction: Any) -> list[Any] | None:
        """Return the directional derivative of the outputs for one input, by forward mode; None if there is no forward
        mode.
        """
        return None

    @abstractmethod
    def pull(self, values: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """Return the vector-Jacobian product with respect to each input, computed by the framework; None for an input
        without one.

        For complex values, return the gradient of the real part of the inner product with the cotangents, in PyTorch's
        convention.
        """
