"""State that a TensorFlow program changes: Variables, whose values are saved before they are written, and random
numbers.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

import tensorflow as tf

from backprobe.backends.kept import Kept, assign
from backprobe.backends.patching import patched
from backprobe.backends.random_states import RandomState
from backprobe.backends.replay import State
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.layers import is_layer
from backprobe.backends.tensorflow.operation_log import hearing_draws
from backprobe.backends.tensorflow.tensors import is_tensor, read, variable_of


class TensorflowState(State):
    """Implements ``State`` for TensorFlow."""

    draws: bool | None = None  # does an operation draw random numbers? None before the first run

    @cached_property
    def variables(self) -> Sequence[Any]:
        """The Variables of the layers, modules, optimizers and generators that the program holds."""
        found = [variable for one in self.reached for variable in variables_in(one)]
        return [*{id(one): one for one in found}.values()]

    def random_states(self) -> Sequence[RandomState]:
        of_tensorflow = private.operation_seeds(), private.global_generator()
        return [*super().random_states(), *of_tensorflow, private.random_state_of_keras(), private.names_of_keras()]

    def is_known(self, value: Any) -> bool:
        is_of_it = type(value).__module__.partition(".")[0] in ("tensorflow", "keras")
        # if the program assigns a container to a layer or module, TensorFlow stores a container of its own class
        # instead
        return (is_of_it and not isinstance(value, list | dict | set)) or has_parts(value)

    def further(self) -> Iterable[Any]:
        parts = {id(part): part for one in self.held if has_parts(one) for part in _parts(one)}
        return [value for part in parts.values() for value in vars(part).values()]

    @contextmanager
    def hearing(self, kept: Kept, seed: int | None) -> Iterator[None]:
        for variable in self.variables:
            keep(variable, kept)
        for one in filter(has_parts, self.reached):
            for part in _parts(one):
                if kept.is_new(part, "attributes"):
                    kept.undo.append(partial(assign, vars(part), dict(vars(part))))
            if is_layer(one):
                _keep_trained(one, kept)
        writing = [(*method, partial(partial, partial(_written, kept))) for method in private.WRITING]
        with patched(writing):
            if not self.draws_anew:
                yield
                return
            with private.operations_seeded() as seed_operations, self._noticing():
                seed_operations((private.global_seed() or 0) if seed is None else seed, self.draws is not False)
                yield

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        if self.draws is not None:
            yield
            return
        with hearing_draws() as drawn:
            yield
        self.draws = bool(drawn)


def has_parts(value: Any) -> bool:
    """Is the value a layer of Keras, or a module of TensorFlow?"""
    return is_layer(value) or isinstance(value, tf.Module)


def _parts(one: Any) -> Sequence[Any]:
    # Return a layer or module, with all layers or modules inside it.
    return [*one._flatten_layers()] if is_layer(one) else [one, *one.submodules]


def keep(variable: Any, kept: Kept) -> None:
    """Save the value of a Variable, unless it was saved before."""
    if is_tensor(variable) and kept.is_new(variable):
        value = private.unrecorded(read, variable)
        kept.undo.append(lambda: private.unrecorded(variable.assign, value))


def _keep_trained(layer: Any, kept: Kept) -> None:
    # Save which parts of a layer are trainable, because setting ``trainable`` on a layer also changes its inner layers
    # and Variables.
    for owner in (*layer._flatten_layers(), *layer.variables):
        if kept.is_new(owner, "trained"):
            kept.undo.append(partial(_assign_trained, owner, vars(owner).get("_trainable")))


def _assign_trained(owner: Any, is_trained: bool | None) -> None:
    if is_trained is not None and vars(owner).get("_trainable") != is_trained:
        vars(owner)["_trainable"] = is_trained


def _written(kept: Kept, following: Callable[..., Any], variable: Any, /, *args: Any, **kwargs: Any) -> Any:
    if tf.executing_eagerly():
        keep(variable, kept)
    return following(variable, *args, **kwargs)


def variables_in(one: Any) -> list[Any]:
    """Return the Variables of a layer, module, optimizer or generator, or the Variable itself; [] for other values."""
    own = [one]
    if is_layer(one):
        from backprobe.backends.tensorflow.guarded_calls import variables  # imports Keras

        own = variables(one)
    elif isinstance(one, tf.random.Generator):
        own = [one.state]
    elif isinstance(one, tf.Module) or _is_of_keras(one, "optimizers", "Optimizer"):
        own = list(one.variables)
    elif _is_of_keras(one, "random", "SeedGenerator"):
        own = [one.state]
    return [variable for variable in map(variable_of, own) if variable is not None]


def _is_of_keras(value: Any, module: str, name: str) -> bool:
    kind = getattr(getattr(sys.modules.get("keras"), module, None), name, None)
    return kind is not None and isinstance(value, kind)
