"""Reports to a guard the calls of Equinox and Flax NNX models, outside of compiled code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp

from backprobe.backends.guarding import CallGuarding, Heard
from backprobe.backends.guards import Found, GuardedCall, GuardListener, Guards
from backprobe.backends.jax import models
from backprobe.backends.jax.guarded_gradients import GradientHearing, JaxGuardedGradient, RunAgain
from backprobe.backends.jax.guarded_values import at_element, element_of, has_numbers, unfit
from backprobe.backends.jax.tensors import is_floating
from backprobe.backends.patching import definer_of, listening
from backprobe.backends.random_states import OF_PYTHON, RandomNumbers
from backprobe.backends.temporarily import temporarily
from backprobe.errors import Unsupported
from backprobe.record.containers import leaves

UNSEEN = (
    "bp.guard({name}) saw no {kind}call of it: what jax.jit or jax.lax compile is not looked at, nor jax.vmap inside "
    "jax.vmap. With jax.disable_jit(): it is."
)
UNSEEN_GRADIENT = (
    "bp.guard() saw {found}: it looks at what jax.grad and jax.value_and_grad compute outside of jax.jit. With "
    'jax.disable_jit(): it sees all of them; jax.config.update("jax_debug_nans", True) looks into what is compiled.'
)


class JaxGuardedCall(RunAgain, GuardedCall):
    """Implements ``GuardedCall`` for JAX. Under ``jax.vmap`` the call is repeated for one element that is not
    finite.
    """

    path = ""
    backward = "jax.grad"
    see_lines = "bp.explain(bp.probe(f, nonfinite=True)(x)) with a function f that calls the model, not under jit"

    returned: Mapping[str, Any] = MappingProxyType({})
    """The outputs of the call for the first element that is not finite, by path."""

    is_mapped = False

    def __init__(self, model: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        self.held, self.whole = models.taken_apart(model)
        self.module, self.given = model, (args, dict(kwargs))
        self.random = RandomNumbers(OF_PYTHON)

    def failed_with(self, outputs: Mapping[str, Any], bad: Found) -> None:
        """Keep the inputs and outputs for the first element that is not finite."""
        path = next(iter(bad))
        element = element_of(outputs[path])
        at = partial(at_element, element=element)
        self.is_mapped = element is not None
        self.returned = {path: at(one) for path, one in outputs.items()}
        self.module = self.whole(jax.tree.map(at, self.held))
        self.given = jax.tree.map(at, self.given)
        self.output = path.removeprefix(".") or None, jnp.ones_like(at(outputs[path]))

    def held_arrays(self) -> Any:
        return self.given, models.taken_apart(self.module)[0]

    def arguments(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        return self.given


class JaxGuarding(CallGuarding):
    """Observes the calls of one class of models. A single model could not be observed, because each derivative rebuilds
    it.
    """

    unfit = staticmethod(unfit)

    def __init__(self, model: Any, listener: GuardListener) -> None:
        super().__init__(listener)
        self.kind, self.heard = type(model), Heard()
        self.is_busy = False
        self.calls = 0
        self.installed = ExitStack()
        self.gradients = GradientHearing(listener, self.repeating, self._concerned)

    def _concerned(self, gradient: JaxGuardedGradient) -> Callable[[], bool]:
        # Return a function that says, after a gradient was computed, whether the model was part of the computation.
        before = self.calls
        return lambda: self.calls > before or any(type(one) is self.kind for one in gradient.given[0])

    @contextmanager
    def listening(self) -> Iterator[None]:
        try:
            self._listen()
            with self.gradients.listening():
                yield
        finally:
            self.installed.close()
        self.heard.warn(UNSEEN.format(name=self.kind.__name__, kind="compiled " * self.heard.is_any))

    def _listen(self) -> None:
        owner = definer_of(self.kind, "__call__")
        self.installed.enter_context(listening(owner, "__call__", self._called))

    @contextmanager
    def repeating(self) -> Iterator[None]:
        """Within this context, calls are repetitions, and all patches are removed. A probe reads the source of
        ``__call__``, which must be the program's own.
        """
        self.installed.close()
        try:
            yield
        finally:
            self._listen()

    def _called(self, following: Callable[..., Any], model: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self.is_busy or type(model) is not self.kind:
            return following(model, *args, **kwargs)
        self.calls += 1
        with temporarily(self, is_busy=True):
            call = JaxGuardedCall(model, args, kwargs)
            returned = following(model, *args, **kwargs)
            self._over(call, returned)
            return returned

    def _over(self, call: JaxGuardedCall, returned: Any) -> None:
        outputs = {path: leaf for path, leaf in leaves(returned) if is_floating(leaf)}
        if self.heard.came(with_numbers=all(map(has_numbers, outputs.values()))):
            self.ended(call, outputs)


@contextmanager
def gradients_heard(listener: GuardListener) -> Iterator[None]:
    """Inside this context, the gradients that the program computes are reported."""
    hearing = GradientHearing(listener)
    with hearing.listening():
        yield
    if not listener.every:
        found = "a gradient that jax.jit compiles" if hearing.heard.has_compiled else "no gradient"
        hearing.heard.warn(UNSEEN_GRADIENT.format(found=found))


class JaxGuards(Guards):
    """Implements ``Guards`` for JAX."""

    functions = staticmethod(gradients_heard)

    def listening(self, model: Any, listener: GuardListener) -> Any:
        if models.kind(model) == "linen":
            name = type(model).__name__
            raise Unsupported(
                "a linen model cannot be guarded",
                asked=f"with bp.guard({name}):",
                found=f"the linen model {name}",
                why="it is given its variables at each call, and backprobe does not hear of these",
                next=f"with bp.guard(): around jax.grad of the loss; or bp.explain(bp.probe({name}, nonfinite=True)"
                "(variables, x)) of one step",
            )
        return JaxGuarding(model, listener).listening()
