"""The eager calls of a Keras model as a guard hears them, and the gradients that tapes of the program give for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import tensorflow as tf

from backprobe.backends.guards import GuardListener, Repeating
from backprobe.backends.patching import listening
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.block_guards import ScaledLosses, flat, numbers_of
from backprobe.backends.tensorflow.guarded_calls import TensorflowGuardedCall, floating, unfit
from backprobe.backends.tensorflow.layers import is_symbolic
from backprobe.backends.tensorflow.model_plans import structure_of
from backprobe.backends.tensorflow.models import caller
from backprobe.backends.tensorflow.tensors import identity, is_eager, variable_of
from backprobe.record.containers import refilled

COMPILED = (
    "bp.guard({name}) saw no {kind}call of it: what tf.function or Keras compiles is not looked at. Use "
    "model.compile(..., run_eagerly=True), or tf.config.run_functions_eagerly(True), to have it looked at."
)


class Guarding(Repeating):
    """What the calls of Keras's layers and of gradient tapes go through, in one thread."""

    def __init__(self, model: Any, listener: GuardListener) -> None:
        self.model, self.listener = model, listener
        self.known: dict[int, tuple[Any, str]] = {}
        self.running: list[Any] = []  # the layers that run now, outermost first
        self.is_guarded = False  # does one of the guarded model run?
        self.has_heard = self.has_traced = False
        self.scaled = ScaledLosses()
        self.come: dict[TensorflowGuardedCall, None] = {}  # the calls that the pass that runs has come to
        self._look()

    def _look(self) -> None:
        self.structure = structure_of(self.model)
        self.known = {id(module): (module, paths[0]) for module, paths in self.structure.known.values()}

    @contextmanager
    def listening(self) -> Iterator[None]:
        heard: list[tuple[Any, str, Callable[..., Any]]] = [
            (kind, "__call__", partial(self._called, kind)) for kind in dict.fromkeys(map(caller, self._classes()))
        ]
        heard += [(tf.GradientTape, "gradient", self._differentiated)]
        with ExitStack() as installed:
            installed.enter_context(self.scaled.listening())
            for owner, name, listener in heard:
                installed.enter_context(listening(owner, name, listener))
            yield
        if self.has_traced or not self.has_heard:
            kind = "compiled " if self.has_heard else ""
            warnings.warn(COMPILED.format(name=type(self.model).__name__, kind=kind), UserWarning, stacklevel=4)

    def _classes(self) -> list[type]:
        return [type(module) for module, _ in self.known.values()]

    # forward

    def _called(self, kind: type, following: Callable[..., Any], module: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self.is_repeating or kind is not caller(type(module)):
            return following(module, *args, **kwargs)
        if not self.is_guarded and id(module) not in self.known and not self.running:
            self._look()
        is_outermost = not self.is_guarded and id(module) in self.known
        if is_outermost and is_symbolic((args, kwargs)):
            self.has_traced |= not tf.executing_eagerly() and not private.is_traced_by_keras()
            is_outermost = False
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
        self.has_heard = True
        path = self.known[id(module)][1]
        return TensorflowGuardedCall(module, path, (args, dict(kwargs)), bool(self.running), self._come)

    def _over(self, call: TensorflowGuardedCall, returned: Any) -> Any:
        outputs = dict(floating(returned))
        if self.listener.captures:
            call.returned = outputs
        bad = unfit({path: one for path, one in outputs.items() if self.listener.is_read(f"{call.path}:return{path}")})
        if bad:
            with self.repeating():
                self.listener.called(call, bad)
        call.has_ended = True
        tied = {id(one): call.tied(path, one) for path, one in outputs.items() if private.is_followed_by_a_tape(one)}
        return refilled(returned, lambda leaf: tied.get(id(leaf), leaf)) if tied else returned

    # backward

    def _come(self, call: TensorflowGuardedCall) -> None:
        self.come[call] = None

    def _differentiated(
        self, following: Callable[..., Any], tape: Any, /, target: Any, sources: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if self.is_repeating or not tf.executing_eagerly():
            return following(tape, target, sources, *args, **kwargs)
        outer, self.come = self.come, {}
        try:
            gradients = following(tape, target, sources, *args, **kwargs)
            self._look_at(target, sources, gradients)
            return gradients
        finally:
            for call in self.come:
                call.gradients.clear()
            self.come = outer

    def _look_at(self, target: Any, sources: Any, gradients: Any) -> None:
        # A pass is over. An overflow that a scaler of losses handles is not a finding.
        if not self.come or self.scaled.any_of(target):
            return
        found = self._named(sources, gradients)
        bad = unfit(found)
        if bad:
            for call in self.come:
                call.left = found
            with self.repeating():
                self.listener.differentiated([*self.come], bad)

    def _named(self, sources: Any, gradients: Any) -> dict[str, Any]:
        # The gradients of the model's Variables, by their paths.
        self._look()
        paths = {identity(variable): path for path, variable in self.structure.variables}
        found = {}
        for source, gradient in zip(tf.nest.flatten(sources), flat(gradients), strict=False):
            path = None if variable_of(source) is None else paths.get(identity(source))
            numbers = numbers_of(gradient)
            if path is not None and is_eager(numbers) and self.listener.is_read(path):
                found[path] = numbers
        return found
