"""Reports to a guard the gradients that a program computes with ``jax.grad`` and ``jax.value_and_grad``.

If the guard wants every gradient, those by ``jax.vjp`` and ``jax.jacrev`` are reported too.

Functions in JAX are pure. If a gradient is not finite, the same function can therefore be differentiated again under a
probe, at the same arguments. Equinox and Flax NNX differentiate a wrapper around the user's function, and pass the
model to it in parts.
"""

from __future__ import annotations

import inspect
import sys
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from types import FrameType, MappingProxyType
from typing import Any

import jax

from backprobe.backends.guarding import Guarding, Heard
from backprobe.backends.guards import GuardedGradient, GuardListener, Repeatable
from backprobe.backends.jax import models, private
from backprobe.backends.jax.derivative_flow import lines_of_constants, stopping
from backprobe.backends.jax.guarded_pullbacks import Of, asked_by_program, output_and_cotangent
from backprobe.backends.jax.guarded_values import at_element, element_of, has_numbers, unfit
from backprobe.backends.jax.tensors import is_floating
from backprobe.backends.jax.useless import observed
from backprobe.backends.jax.useless.steps import JaxSteps
from backprobe.backends.patching import listening
from backprobe.backends.random_states import OF_PYTHON, RandomNumbers
from backprobe.backends.temporarily import temporarily
from backprobe.backends.useless import Observed
from backprobe.backends.user_lines import callers
from backprobe.errors import BackprobeError
from backprobe.record.reasons import Note, Reason
from backprobe.record.source import Source
from backprobe.source.frames import forget, name_in

JACREV = "jax.jacrev"
PULLBACKS = 64
"""The number of the latest results of ``jax.vjp`` that are remembered."""


@dataclass(frozen=True)
class AskedGradient:
    """A function, its arguments, and the positions of the differentiated arguments."""

    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    positions: tuple[int, ...]
    has_aux: bool
    call: str = "jax.grad"

    @classmethod
    def by(cls, frame: FrameType) -> AskedGradient:
        """Read the request from the arguments in the frame of ``value_and_grad`` or ``jacrev``."""
        function, argnums = name_in(frame, "fun"), name_in(frame, "argnums")
        given = name_in(frame, "args"), name_in(frame, "kwargs")
        positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        positions = tuple(at % len(given[0]) for at in positions)
        has_aux = bool(name_in(frame, "has_aux"))
        call = JACREV if private.is_jacobian(frame) else "jax.grad"
        asked = _by_equinox(function, given, has_aux) or _by_nnx(function, frame)
        forget(frame)
        return asked or cls(function, given[0], given[1], positions, has_aux, call)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the differentiated arguments."""
        try:
            known = list(inspect.signature(self.function).parameters)
        except (TypeError, ValueError):
            known = []
        return tuple(known[at] if at < len(known) else f"argument {at}" for at in self.positions)


def _by_equinox(function: Any, given: Any, has_aux: bool) -> AskedGradient | None:
    # Read a gradient computed by Equinox; return None for any other. ``filter_grad`` differentiates a function of two
    # parts of its first argument: the arrays, and everything else.
    equinox = sys.modules.get("equinox")
    cells = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    wrapper = cells.get("self")
    if equinox is None or not isinstance(wrapper, equinox.Module) or not hasattr(wrapper, "__wrapped__"):
        return None
    (arrays, rest, *args), kwargs = given
    return AskedGradient(wrapper.__wrapped__, (equinox.combine(arrays, rest), *args), kwargs, (0,), has_aux)


def _by_nnx(function: Any, frame: FrameType) -> AskedGradient | None:
    # Read a gradient computed by Flax NNX; return None for any other. ``nnx.grad`` differentiates a function of the
    # states of the models among its arguments.
    inner = getattr(function, "f", None)
    if not type(function).__module__.startswith("flax.nnx") or inner is None:
        return None
    for around in islice(callers(frame.f_back), 16):
        if around.f_code.co_filename.endswith("autodiff.py") and "pure_args" in around.f_code.co_varnames:
            args = name_in(around, "args")
            argnums = name_in(around, "jax_argnums")
            forget(around)
            positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
            return AskedGradient(inner, tuple(args), {}, positions, bool(function.has_aux))
    return None


class RunAgain(Repeatable):
    """A call that can be repeated with the same random numbers, unless it was traced for compiled code."""

    random: RandomNumbers

    @abstractmethod
    def held_arrays(self) -> Any:
        """Return all values that the call was computed from, as a pytree."""

    def why_not_again(self) -> Reason | None:
        is_traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(self.held_arrays()))
        return Reason("call_traced") if is_traced else None

    def restored(self) -> AbstractContextManager[None]:
        self.random.restore()
        return nullcontext()


class JaxGuardedGradient(RunAgain, GuardedGradient):
    """Implements ``GuardedGradient`` for JAX. Under ``jax.vmap`` the gradient is computed again for one element that is
    not finite.
    """

    of: Of
    is_concerned: Callable[[], bool]
    """Is the guarded model part of the computation of this gradient?"""

    steps: JaxSteps | None = None
    """The updates between successive gradients of a function."""

    see_lines = "bp.explain(bp.probe(loss, nonfinite=True)(...)) of the function, at these arguments, not under jit"

    left: Mapping[str, Any] = MappingProxyType({})

    def __init__(self, asked: AskedGradient) -> None:
        self.function, self.wrt = asked.function, frozenset(asked.names)
        self.asked = f"{asked.call}({getattr(asked.function, '__name__', type(asked.function).__name__)})"
        self.of = "0" if asked.has_aux else None
        self.has_aux = asked.has_aux
        self.parts = [models.taken_apart(one) if models.kind(one) == "nnx" else None for one in asked.args]
        self.given, self.positions, self.names = (asked.args, asked.kwargs), asked.positions, asked.names
        self.random = RandomNumbers(OF_PYTHON)
        self.element: int | None = None

    def held_arrays(self) -> Any:
        return self.arguments()

    def arguments(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        at = partial(at_element, element=self.element)
        args = [
            jax.tree.map(at, one) if part is None else part[1](jax.tree.map(at, part[0]))
            for one, part in zip(self.given[0], self.parts, strict=True)
        ]
        return tuple(args), jax.tree.map(at, self.given[1])

    def unused(self) -> Mapping[str, Source | None]:
        names, closed, inputs = self._traced
        used, captured = private.read_by(closed.jaxpr), lines_of_constants(closed)
        every = zip(names, closed.jaxpr.invars, inputs, strict=True)
        return {name: captured.get(id(array)) for name, var, array in every if id(var) not in used}

    def stopping(self, names: Collection[str]) -> dict[str, list[tuple[str, Source | None]]]:
        known, closed, _ = self._traced
        return {
            known[at]: found
            for at, found in stopping(closed, [at for at, name in enumerate(known) if name in names]).items()
        }

    def useless(self, suspicious: Collection[str]) -> Observed:
        try:
            names, closed, inputs = self._traced
            is_one_number = len(closed.out_avals) == 1 and not closed.out_avals[0].shape
            return observed(closed, inputs, names, suspicious) if is_one_number else Observed()
        except Exception:  # noqa: BLE001  # the program itself has run: what else is known of it is said
            return Observed()

    def still(self) -> Sequence[Note]:
        return [] if self.steps is None else self.steps.notes_on(code_of(self.function))

    @cached_property
    def _traced(self) -> tuple[list[str], Any, list[Any]]:
        # The names of the differentiated inputs of the function, its jaxpr with respect to these inputs, and their
        # values.
        names, inputs, function = self.of_inputs()

        def output(*tracers: Any) -> Any:
            return function(tracers)[0] if self.has_aux else function(tracers)

        return names, jax.make_jaxpr(output)(*inputs), inputs

    def of_inputs(self) -> tuple[list[str], list[Any], Callable[[Sequence[Any]], Any]]:
        """Return the names and values of the differentiated inputs, and the function with respect to these inputs."""
        args, kwargs = self.arguments()
        held = [args[at] if part is None else part[0] for at, part in enumerate(self.parts)]
        given = [held[at] for at in self.positions]
        leaves, structure = jax.tree.flatten(given)
        arrays = [at for at, leaf in enumerate(leaves) if is_floating(leaf)]

        def run(tracers: Sequence[Any]) -> Any:
            held = dict(zip(arrays, tracers, strict=True))
            filled = jax.tree.unflatten(structure, [held.get(at, leaf) for at, leaf in enumerate(leaves)])
            exchanged = {
                at: one if (part := self.parts[at]) is None else part[1](one)
                for at, one in zip(self.positions, filled, strict=True)
            }
            return self.function(*[exchanged.get(at, one) for at, one in enumerate(args)], **kwargs)

        return list(named(self.names, given)), [leaves[at] for at in arrays], run


def unchecked() -> AbstractContextManager[object]:
    """Within this context, JAX itself does not raise an error at NaN or Inf, as it does under ``jax.debug_nans``."""
    off = ExitStack()
    for check in (jax.debug_nans, jax.debug_infs):
        if check.value:  # to turn off what is off would make JAX compile functions anew
            off.enter_context(check(False))
    return off


class GradientHearing(Guarding):
    """Observes the gradients that a program computes in one thread. Gradients inside a differentiated function are part
    of its value, and are not reported.
    """

    unfit = staticmethod(unfit)

    def __init__(
        self,
        listener: GuardListener,
        resting: Callable[[], AbstractContextManager[object]] = nullcontext,
        concerned: Callable[[JaxGuardedGradient], Callable[[], bool]] = lambda gradient: lambda: True,
    ) -> None:
        super().__init__(listener)
        self.resting, self.concerned, self.heard = resting, concerned, Heard()
        self.is_inside = False
        self.installed = ExitStack()
        self.steps = JaxSteps() if listener.every else None
        # results of ``jax.vjp``, each with the request and the value of the function
        self.pullbacks: deque[tuple[Any, AskedGradient, Any]] = deque(maxlen=PULLBACKS)

    @contextmanager
    def listening(self) -> Iterator[None]:
        with self.installed:
            if private.DIFFERENTIATING is not None:
                self.installed.enter_context(listening(*private.DIFFERENTIATING, self._differentiated))
            if self.listener.every:
                self.installed.enter_context(listening(jax, "vjp", self._pulling_back))
            if self.steps is not None:
                self.installed.enter_context(self.steps.listening())
            yield

    def _pulling_back(self, following: Callable[..., Any], function: Any, *primals: Any, **options: Any) -> Any:
        # Called instead of ``jax.vjp``.
        if self.is_repeating or self.is_inside or not asked_by_program(sys._getframe(1)):
            return following(function, *primals, **options)
        with temporarily(self, is_inside=True):
            value, pullback, *rest = following(function, *primals, **options)
        has_aux = bool(options.get("has_aux"))
        asked = AskedGradient(function, primals, {}, tuple(range(len(primals))), has_aux, "jax.vjp")
        # observe the calls of the pullback's class, because the program receives the original pullback
        if "__call__" in vars(type(pullback)) and not self.pullbacks:
            self.installed.enter_context(listening(type(pullback), "__call__", self._pulled))
        self.pullbacks.append((pullback, asked, value))
        return value, pullback, *rest

    def _pulled(self, following: Callable[..., Any], pullback: Any, *args: Any, **kwargs: Any) -> Any:
        found = following(pullback, *args, **kwargs)
        known = next((one for one in self.pullbacks if one[0] is pullback), None)
        if known is not None and len(args) == 1 and not (kwargs or self.is_repeating):
            _, asked, value = known
            gradient = JaxGuardedGradient(asked)
            gradient.of, gradient.cotangent = output_and_cotangent(value, args[0], has_aux=asked.has_aux)
            gradient.is_concerned = self.concerned(gradient)
            self._look(gradient, named(asked.names, found), False)
        return found

    def _differentiated(self, following: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        frame = None if self.is_repeating or self.is_inside else private.gradient_asked(sys._getframe(1))
        if frame is None or (private.is_jacobian(frame) and not self.listener.every):
            return following(*args, **kwargs)
        asked = AskedGradient.by(frame)
        gradient = JaxGuardedGradient(asked)
        gradient.is_concerned = self.concerned(gradient)
        with temporarily(self, is_inside=True), self._no_step():  # gradients inside the function are part of its value
            run = partial(following, *args, **kwargs)
            value, backward, *rest = self._stopped(run, lambda ran: self._look(gradient, {"": ran[0]}, True))
        if asked.call == JACREV:  # jacrev calls the function once with all rows of a basis, traced
            gradient.of, gradient.cotangent = output_and_cotangent(value, None, has_aux=asked.has_aux)
            self._look(gradient, named(["value"], [value]), False)
            return value, backward, *rest
        self._look(gradient, {"": value}, True)
        return value, partial(self._backward, gradient, asked, args[1:], backward), *rest

    def _stopped(self, run: Callable[[], Any], look: Callable[[Any], None]) -> Any:
        # Run a part of a gradient. If JAX's own check for NaN and Inf stops it, look at what it returns without that
        # check, and raise JAX's error.
        try:
            return run()
        except FloatingPointError as error:
            is_of_jax = jax.debug_nans.value or jax.debug_infs.value
            if is_of_jax and not isinstance(error, BackprobeError):  # a guard inside has stopped it otherwise
                with unchecked():
                    look(run())
            raise

    def _no_step(self) -> AbstractContextManager[None]:
        # Inside this context, operations are part of a differentiation or are run by backprobe, and are not recorded as
        # a step.
        return nullcontext() if self.steps is None else self.steps.resting()

    def _backward(
        self,
        gradient: JaxGuardedGradient,
        asked: AskedGradient,
        primals: Sequence[Any],
        backward: Callable[..., Any],
        cotangent: Any,
    ) -> Any:
        with self._no_step():
            run = partial(backward, cotangent)
            found = self._stopped(run, lambda ran: self._look(gradient, named(asked.names, ran), False))
            by_name = named(asked.names, found)
        if self.steps is not None and self.listener.every and all(map(has_numbers, by_name.values())):
            self.steps.gradient(code_of(asked.function), named(asked.names, primals), by_name)
            gradient.steps = self.steps
            gradient.is_undecided = self.steps.is_open(code_of(asked.function))
        if all(map(has_numbers, by_name.values())):
            gradient.trained = frozenset(by_name)
        self._look(gradient, by_name, False)
        return found

    def _look(self, gradient: JaxGuardedGradient, named: Mapping[str, Any], is_value: bool) -> None:
        if not gradient.is_concerned() or not self.heard.came(with_numbers=all(map(has_numbers, named.values()))):
            return
        with private.outside():
            bad = self.unfit({name: leaf for name, leaf in named.items() if is_value or self.listener.is_read(name)})
            if bad or (self.listener.every and not is_value):
                gradient.element = element_of(named[next(iter(bad or named))]) if named else None
                gradient.left = named
                with self.repeating(), self.resting(), self._no_step(), unchecked():
                    self.listener.gradient(gradient, bad, is_value)


def code_of(function: Any) -> Any:
    """Return a key that identifies a Python function even if the program creates the function anew each time. For any
    other callable it is the callable itself.
    """
    return getattr(function, "__code__", function)


def named(names: Sequence[str], gradients: Sequence[Any]) -> dict[str, Any]:
    """Return the floating-point gradients by the names that a recording would use. Flax NNX wraps gradients in states,
    which are unwrapped.
    """
    found = {}
    for name, gradient in zip(names, gradients, strict=False):
        for path, leaf in jax.tree_util.tree_flatten_with_path(gradient)[0]:
            if is_floating(leaf):
                inner = models.dotted(path[2:] if getattr(path[0] if path else None, "name", "") == "states" else path)
                found[f"{name}.{inner}" if inner else name] = leaf
    return found
