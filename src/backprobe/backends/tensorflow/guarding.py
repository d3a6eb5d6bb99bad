"""Reports to a guard eager calls of a Keras model, and the gradients that the program's tapes compute for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import tensorflow as tf

from backprobe.backends.guarding import GuardedPass, Heard, PassGuarding
from backprobe.backends.guards import GuardListener
from backprobe.backends.patching import definer_of, listening
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.block_guards import ScaledLosses, flat
from backprobe.backends.tensorflow.guarded_calls import TensorflowGuardedCall, floating, unfit
from backprobe.backends.tensorflow.layers import is_symbolic
from backprobe.backends.tensorflow.model_plans import structure_of
from backprobe.backends.tensorflow.tensors import identity, is_eager, numbers_of, variable_of
from backprobe.record.containers import refilled

COMPILED = (
    "bp.guard({name}) saw no {kind}call of it: what tf.function or Keras compiles is not looked at. Use "
    "model.compile(..., run_eagerly=True), or tf.config.run_functions_eagerly(True), to have it looked at."
)


@dataclass(eq=False)
class TapePass(GuardedPass[TensorflowGuardedCall]):
    """A call of ``tape.gradient``: its target and sources, and the gradients that it returned."""

    target: Any = None
    sources: Any = None
    gradients: Any = None


class TensorflowGuarding(PassGuarding[TapePass]):
    """Observes the calls of Keras layers and of gradient tapes, in one thread."""

    unfit = staticmethod(unfit)

    def __init__(self, model: Any, listener: GuardListener) -> None:
        super().__init__(listener)
        self.model = model
        self.known: dict[int, tuple[Any, str]] = {}
        self.running: list[Any] = []  # the layers that are running, outermost first
        self.is_guarded = False  # is a layer of the guarded model running?
        self.heard = Heard()
        self.scaled = ScaledLosses()
        self.running_pass = TapePass()
        self._look()

    def _look(self) -> None:
        self.structure = structure_of(self.model)
        self.known = {id(module): (module, paths[0]) for module, paths in self.structure.known.values()}

    @contextmanager
    def listening(self) -> Iterator[None]:
        with ExitStack() as installed:
            installed.enter_context(self.scaled.listening())
            for kind in dict.fromkeys(definer_of(type(module), "__call__") for module, _ in self.known.values()):
                installed.enter_context(listening(kind, "__call__", partial(self._called, kind)))
            installed.enter_context(listening(tf.GradientTape, "gradient", self._differentiated))
            yield
        self.heard.warn(COMPILED.format(name=type(self.model).__name__, kind="compiled " * self.heard.is_any))

    # Methods for the forward pass.

    def _called(self, kind: type, following: Callable[..., Any], module: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self.is_repeating or kind is not definer_of(type(module), "__call__"):
            return following(module, *args, **kwargs)
        if not self.is_guarded and id(module) not in self.known and not self.running:
            self._look()
        is_outermost = not self.is_guarded and id(module) in self.known
        if is_outermost and is_symbolic((args, kwargs)):
            is_outermost = False
            if not tf.executing_eagerly() and not private.is_traced_by_keras():
                self.heard.came(with_numbers=False)
        return self._run(is_outermost, following, module, args, kwargs)

    def _run(
        self, is_outermost: bool, following: Callable[..., Any], module: Any, args: Any, kwargs: Mapping[str, Any]
    ) -> Any:
        call = self._call_of(module, args, kwargs) if is_outermost else None
        self.running.append(module)
        self.is_guarded |= is_outermost
        try:
            returned = following(module, *args, **kwargs)
        finally:
            self.running.pop()
            self.is_guarded &= not is_outermost
        return returned if call is None else self._over(call, returned)

    def _call_of(self, module: Any, args: Any, kwargs: Mapping[str, Any]) -> TensorflowGuardedCall:
        self.heard.came(with_numbers=True)
        path = self.known[id(module)][1]
        return TensorflowGuardedCall(module, path, (args, dict(kwargs)), bool(self.running), self._come)

    def _over(self, call: TensorflowGuardedCall, returned: Any) -> Any:
        outputs = floating(returned)
        if self.listener.captures:
            call.returned = outputs
        self.ended(call, outputs)
        call.has_ended = True
        tied = {id(one): call.tied(path, one) for path, one in outputs.items() if private.is_followed_by_a_tape(one)}
        return refilled(returned, lambda leaf: tied.get(id(leaf), leaf)) if tied else returned

    # Methods for the backward pass.

    def _come(self, call: TensorflowGuardedCall, path: str, gradient: Any) -> None:
        self.running_pass.come(call, path, gradient)

    def _differentiated(
        self, following: Callable[..., Any], tape: Any, /, target: Any, sources: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if self.is_repeating or not tf.executing_eagerly():
            return following(tape, target, sources, *args, **kwargs)
        outer, self.running_pass = self.running_pass, TapePass(target=target, sources=sources)
        try:
            self.running_pass.gradients = gradients = following(tape, target, sources, *args, **kwargs)
            if self.running_pass.calls:
                self.passed(self.running_pass)
            return gradients
        finally:
            self.running_pass.forget()
            self.running_pass = outer

    def left_by(self, ended: TapePass) -> Iterator[tuple[str, Any]]:
        self._look()
        paths = {identity(variable): path for path, variable in self.structure.variables}
        for source, gradient in zip(tf.nest.flatten(ended.sources), flat(ended.gradients), strict=False):
            path = None if variable_of(source) is None else paths.get(identity(source))
            numbers = numbers_of(gradient)
            if path is not None and is_eager(numbers):
                yield path, numbers

    def is_handled(self, ended: TapePass) -> bool:
        return self.scaled.any_of(ended.target)

    def keep(self, ended: TapePass, left: Mapping[str, Any]) -> None:
        for call in ended.calls:
            call.left = left
