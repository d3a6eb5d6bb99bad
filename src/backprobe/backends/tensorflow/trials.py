"""Trials of a program in eager TensorFlow: the Variables of the layers that it calls, and its random numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy
import tensorflow as tf

from backprobe.backends.held_values import held_by
from backprobe.backends.random_states import OF_PYTHON, put_back
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.layers import is_layer
from backprobe.backends.tensorflow.operation_log import hearing_draws
from backprobe.backends.tensorflow.tensors import is_eager, is_tensor, plain, read, variable_of
from backprobe.backends.trials import Ran, Trials, seed_python
from backprobe.record.containers import leaves


class TensorflowTrials(Trials):
    """TensorFlow's ``Trials``. Layers and Variables are those that the program closes over, or finds as globals."""

    def __init__(self) -> None:
        self.draws: bool | None = None  # does an operation draw random numbers? Not known before the first run

    def given(self, leaf: Any) -> Any:
        if isinstance(leaf, numpy.ndarray | numpy.generic) and leaf.dtype.kind in "iubfcV":
            return tf.constant(leaf)
        return tf.constant(leaf, tf.float32) if isinstance(leaf, float) else leaf

    def is_varied(self, leaf: Any) -> bool:
        return is_tensor(leaf) and bool(plain(leaf).dtype.is_floating)

    def alike(self, leaf: Any, numbers: Any) -> Any:
        made = tf.cast(tf.constant(numpy.reshape(numbers, leaf.shape)), plain(leaf).dtype)
        return made if variable_of(leaf) is None else tf.Variable(made, trainable=leaf.trainable)

    def total(self, result: Any) -> Any:
        return tf.add_n([tf.reduce_sum(one) for one in floating(result)])

    def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Ran:
        varied = [leaf for _, leaf in leaves((tuple(args), dict(kwargs))) if self.is_varied(leaf)]
        with self._noticing(), tf.GradientTape() as tape:
            for tensor in varied:
                tape.watch(tensor)
            results = floating(function(*args, **kwargs))
        known = {id(one) for one in varied}
        wanted = [*varied, *(one for one in tape.watched_variables() if id(one) not in known)]
        gradients = tape.gradient(results, wanted) if results else []
        return Ran(results, [tf.convert_to_tensor(one) for one in gradients if one is not None])

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        # The first run shows whether operations draw random numbers.
        if self.draws is not None:
            yield
            return
        with hearing_draws() as drawn:
            yield
        self.draws = bool(drawn)

    @contextmanager
    def alike_each_time(self, target: Any, given: Any, seed: int) -> Iterator[Callable[[], None]]:
        first = [(variable, private.unrecorded(read, variable)) for variable in variables_of(target)]

        def begin() -> None:
            seed_python(seed)
            seed_operations(seed, self.draws is not False)
            restore()

        def restore() -> None:
            for variable, value in first:
                private.unrecorded(variable.assign, value)

        with put_back(OF_PYTHON), private.operations_seeded() as seed_operations:
            try:
                yield begin
            finally:
                restore()


def variables_of(target: Any, given: Any = ()) -> list[Any]:
    """The Variables that a program reads or writes, as far as they are found: of layers, modules, and by themselves."""
    found: dict[int, Any] = {}
    for one in (*held_by(target), *(leaf for _, leaf in leaves(given))):
        own = [one]
        if is_layer(one):
            from backprobe.backends.tensorflow.guarded_calls import variables  # which imports Keras

            own = variables(one)
        elif isinstance(one, tf.Module | tf.random.Generator):
            own = [one.state] if isinstance(one, tf.random.Generator) else list(one.variables)
        found |= {id(variable): variable for variable in map(variable_of, own) if variable is not None}
    return list(found.values())


def is_random_state(variable: Any) -> bool:
    """Is it the state of a generator, of Keras or of TensorFlow?"""
    return variable.dtype.is_integer and any(kind in variable.name for kind in ("seed_generator_state", "StateVar"))


def floating(result: Any) -> list[Any]:
    """The floating tensors in what a program returned."""
    return [leaf for _, leaf in leaves(result) if is_eager(leaf) and leaf.dtype.is_floating]
