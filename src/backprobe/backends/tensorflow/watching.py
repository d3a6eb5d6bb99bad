"""Watches a Keras model while it trains: eagerly, in a ``tf.function``, and in ``fit``.

Layers are observed where their class is called. In eager mode their results are measured immediately. In a graph, the
statistics become part of the graph and are stored in separate Variables, which ``run.step()`` reads.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import keras
import numpy
import tensorflow as tf

from backprobe.backends.patching import definer_of, listening
from backprobe.backends.tensorflow import private
from backprobe.backends.tensorflow.model_plans import structure_of
from backprobe.backends.tensorflow.tensors import identity, is_differentiable, is_eager, read, variable_of
from backprobe.backends.tensorflow.traced_before import TracedBefore
from backprobe.backends.watched_names import named
from backprobe.backends.watches import (
    GRADIENT,
    VALUE,
    StepListener,
    Watches,
    Watching,
    WatchOptions,
)
from backprobe.backends.watching import ModelWatching, later, parameter_rows
from backprobe.errors import BadOption, Unsupported
from backprobe.record.containers import leaves, refilled
from backprobe.record.names import quote_path
from backprobe.record.options import Option
from backprobe.record.statistics import NOTHING, Row, measured

OPTIMIZER = Option(
    "optimizer", keras.optimizers.Optimizer, None, "model.optimizer", says="an optimizer of Keras, or several"
)
ADDED = 8  # the columns of a row that are summed; the last two are minimum and maximum


class TensorflowWatching(ModelWatching):
    """Implements ``Watching`` for TensorFlow."""

    def __init__(self, model: Any, options: WatchOptions, listener: StepListener, asked: str) -> None:
        _refuse_others(options, asked)
        super().__init__(model, options, listener, asked)
        self._look()
        names = [quote_path(path) for path, _ in self.structure.modules]
        if all(getattr(part, "built", True) for part, _ in self.known.values()):
            self.selection.check(names, [*self.variables.values()], type(model).__name__)
        self.rows: dict[int, Any] = {}  # by place: Variables for rows that are computed in a graph
        self.trained: set[int] = set()  # places of rows in a graph other than those of values
        self.is_measured = tf.Variable(True, trainable=False)
        self.has_graph = False
        self.heard: set[str] = set()  # paths of layers that were called while a tape recorded
        self.before = TracedBefore()
        self.installed = ExitStack()

    def _look(self) -> None:
        # Search the model again, because layers and Variables may be created when it first runs.
        self.structure = structure_of(self.model)
        self.known = {key: (module, self._chosen(paths)) for key, (module, paths) in self.structure.known.items()}
        self.variables = {identity(one): quote_path(path) for path, one in reversed(self.structure.variables)}

    def _chosen(self, paths: Sequence[str]) -> str:
        # Return the first selected path of a layer; the first path if none is selected.
        return next(filter(self.selection.wants_module, paths), paths[0])

    def __enter__(self) -> TensorflowWatching:
        with ExitStack() as installed:
            installed.enter_context(self.hearing())
            self.installed = installed.pop_all()
        self._forget_compiled()
        return self

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Inside this context calls and optimizer steps are observed."""
        with ExitStack() as installed:
            for kind in dict.fromkeys(definer_of(type(module), "__call__") for module, _ in self.known.values()):
                installed.enter_context(listening(kind, "__call__", partial(self._called, kind)))
            for name, listener in (("apply", self._applied), (private.UPDATING, self._updating)):
                for kind in dict.fromkeys(definer_of(type(one), name) for one in self.options.optimizers):
                    installed.enter_context(listening(kind, name, partial(listener, kind)))
            installed.enter_context(self.before.listening(self._ran))
            yield

    def rest(self) -> None:
        """Observe nothing outside of ``hearing``."""
        self.installed.close()

    def stop(self) -> None:
        self.installed.close()
        self.is_measured.assign(False)
        self._forget_compiled()

    def _forget_compiled(self) -> None:
        # Let ``fit`` compile its function again, because a compiled function contains the hooks that were installed
        # when it was traced.
        if getattr(self.model, "train_function", None) is not None:
            self.model.train_function = None

    def step(self) -> None:
        self._follow_up()
        if self.options.optimizers and not self.has_graph:
            raise self.refuse_step("optimizer= was given, and what it trains is not compiled", "leave out run.step()")
        if self.options.optimizers and not _has_stepped(self.options.optimizers[-1]):
            self.listener.begin()
            return
        rows = {place: row.read_value() for place, row in self.rows.items()}
        for place, row in rows.items():
            self.listener.begin()
            self.listener.add(place, row)
            self.rows[place].assign(NOTHING)
        if any(float(rows[place][0]) for place in self.trained & rows.keys()):
            self.listener.passed()
        self._end()

    def fitted(self) -> None:
        """Called when a batch of ``fit`` has ended. If ``fit`` is compiled, only this call ends the step."""
        if self.has_graph:
            self.step()
        else:
            self._follow_up()

    def _end(self) -> None:
        self._follow_up()
        self.listener.end()
        self.is_measured.assign(self.listener.is_measured)

    def _ran(self, function: Any) -> None:
        # Called when a function that was traced before has run. If it contains the optimizer, no other event would end
        # the step.
        held = {private.identity_of(one) for one in function.captured_inputs if hasattr(one, "_id")}
        counters = [private.counter(one) for one in self.options.optimizers]
        if tf.executing_eagerly() and any(identity(one) in held for one in counters):
            self._follow_up()

    def _follow_up(self) -> None:
        # Raise Unsupported if a part of the model has run without the hooks of this watch.
        if not self.before.ran:  # usually nothing was traced before
            return
        silent = {path: one for one, path in self.known.values() if path not in self.heard and hasattr(one, "weights")}
        found = self.before.around({path: one for path, one in silent.items() if path} or silent)
        self.before.ran.clear()
        if found is not None:
            function, path = found
            raise Unsupported(
                f"{function}() was traced before it was watched",
                asked=self.asked,
                found=f"it has run in this step, and no call of {path or 'the model'!r} was seen",
                why="its graph was fixed when it was traced, and runs on without what a watch puts in",
                next=f"call bp.watch(...) before {function}() runs for the first time, or make it anew, as "
                f"tf.function({function}), inside the watch",
            )

    # Methods for the forward and backward pass.

    def _called(self, kind: type, following: Callable[..., Any], module: Any, /, *args: Any, **kwargs: Any) -> Any:
        output = following(module, *args, **kwargs)
        if kind is not definer_of(type(module), "__call__") or private.is_traced_by_keras():
            return output
        if id(module) not in self.known:
            self._look()
        path = self.known.get(id(module), (None, None))[1]
        if path is None:
            return output
        heard = [(at, leaf) for at, leaf in leaves(output) if isinstance(leaf, tf.Tensor) and is_differentiable(leaf)]
        heard = [(at, leaf) for at, leaf in heard if private.is_followed_by_a_tape(leaf)]
        if heard and path not in self.heard:
            self.heard.add(path)
            self.say_line(path, sys._getframe(1))
        if heard and tf.executing_eagerly():
            self.listener.begin()
        tied = {id(leaf): self._tied(path, at, leaf) for at, leaf in heard if self._wants(path, at)}
        return refilled(output, lambda leaf: tied.get(id(leaf), leaf)) if tied else output

    def _wants(self, path: str, at: str) -> bool:
        is_on = self.listener.is_measured or not tf.executing_eagerly()
        return is_on and self.selection.wants_output(path, at)

    def _tied(self, path: str, at: str, tensor: Any) -> Any:
        # Measure a tensor. If gradients are watched, return a new tensor with the same numbers, whose gradient is
        # measured when it arrives; otherwise return the tensor itself.
        name = named(path, at)
        if self.options.values:
            private.unrecorded(partial(self._measure, name, VALUE), tensor)
        if not self.options.gradients:
            return tensor

        def again(one: Any) -> Any:
            def back(gradient: Any) -> Any:
                private.unrecorded(partial(self._measure, name, GRADIENT), gradient)
                return gradient

            return tf.identity(one), back

        made = tf.custom_gradient(again)(tensor)
        vars(made).update(vars(tensor))  # copy attributes such as Keras's mask
        return made

    def _measure(self, name: str, kind: str, tensor: Any, is_replicated: bool = False) -> None:
        if is_eager(tensor):
            if self.listener.is_measured:
                place = self.listener.place(name, kind, is_replicated=is_replicated)
                self.listener.add(place, _row_now(tensor))
            return
        self.has_graph = True
        place = self.listener.place(name, kind, is_replicated=is_replicated)
        if kind != VALUE:
            self.trained.add(place)
        if place not in self.rows:
            with tf.init_scope():
                self.rows[place] = tf.Variable(NOTHING, dtype=tf.float64, trainable=False)
        tf.cond(self.is_measured, lambda: _merge(self.rows[place], tensor), lambda: None)

    # Methods for optimizers.

    def _applied(
        self, kind: type, following: Callable[..., Any], optimizer: Any, grads: Any, trainable_variables: Any = None
    ) -> Any:
        if not self._is_watched(optimizer, kind, "apply"):
            return following(optimizer, grads, trainable_variables)
        self._look()
        grads = list(grads)
        variables = list(trainable_variables or self.model.trainable_variables)
        own = {name: one for name, one, _ in self._named(variables, grads)}
        before = {name: read(one) + 0 for name, one in own.items() if self.options.updates}
        result = following(optimizer, grads, trainable_variables)
        stepped = _has_stepped(optimizer)
        if tf.is_symbolic_tensor(stepped):
            tf.cond(stepped, lambda: self._measure_parameters(own, before), lambda: None)
        elif stepped:
            self._measure_parameters(own, before)
        if tf.executing_eagerly():
            self.listener.passed()
            if stepped and optimizer is self.options.optimizers[-1]:
                self._end()
        return result

    def _updating(
        self, kind: type, following: Callable[..., Any], optimizer: Any, grads: Any, variables: Any, rate: Any
    ) -> Any:
        # Measure gradients in the form in which the optimizer uses them: accumulated, averaged and clipped.
        if self.options.gradients and self._is_watched(optimizer, kind, private.UPDATING):
            for name, _, gradient in self._named(variables, grads):
                self._measure(name, GRADIENT, tf.convert_to_tensor(gradient), True)
        return following(optimizer, grads, variables, rate)

    def _is_watched(self, optimizer: Any, kind: type, name: str) -> bool:
        # Is the optimizer watched, and is this the outermost intercepted call? The method of a class may call its
        # base's method.
        return kind is definer_of(type(optimizer), name) and any(optimizer is one for one in self.options.optimizers)

    def _named(self, variables: Sequence[Any], gradients: Sequence[Any]) -> list[tuple[str, Any, Any]]:
        # Return the names of the watched parameters that have a gradient, with the parameters and gradients.
        pairs = zip(variables, gradients, strict=False)
        own = [(self.variables.get(identity(one), ""), variable_of(one), by) for one, by in pairs if by is not None]
        return [one for one in own if one[0] and self.options.of_parameters and self.selection.wants(one[0])]

    def _measure_parameters(self, own: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        def difference(name: str) -> Any:
            return _wide(read(own[name])) - _wide(before[name])

        for name, kind, numbers in parameter_rows(self.options, own, before, lambda one: read(own[one]), difference):
            self._measure(name, kind, numbers, True)


def _wide(tensor: Any) -> Any:
    # Return the tensor in at least float32, because a difference may have more digits than its dtype.
    return tf.cast(tensor, tf.float32) if tensor.dtype.is_floating and tensor.dtype.size < 4 else tensor


def _has_stepped(optimizer: Any) -> Any:
    # Has the latest gradient changed the parameters? If gradients are accumulated in a graph, this is a tensor.
    several = optimizer.gradient_accumulation_steps
    if not several:
        return True
    found = tf.equal(read(private.counter(optimizer)) % several, 0)
    return bool(found) if is_eager(found) else found


def _row_now(tensor: Any) -> Any:
    # Return the row of a tensor that has numbers. On a device, the row is computed there.
    if "CPU" not in tensor.device:
        return _row(tensor)
    return measured(_real(tensor).numpy())


def _real(tensor: Any) -> Any:
    if tensor.dtype.is_complex:
        tensor = tf.stack([tf.math.real(tensor), tf.math.imag(tensor)])
    return tensor if tensor.dtype == tf.float64 else tf.cast(tensor, tf.float32)


def _row(tensor: Any) -> Any:
    # Return the row as a tensor, float64[10], computed without a branch.
    numbers = _real(tensor)
    is_finite = tf.math.is_finite(numbers)
    wide = tf.cast(tf.where(is_finite, numbers, tf.zeros_like(numbers)), tf.float64)
    infinity = tf.constant(numpy.inf, numbers.dtype)
    flags = [
        is_finite,
        tf.math.is_nan(numbers),
        tf.equal(numbers, infinity),
        tf.equal(numbers, -infinity),
        tf.equal(numbers, tf.zeros_like(numbers)),
    ]
    counts = [tf.reduce_sum(tf.cast(flag, tf.float64)) for flag in flags]
    low = tf.reduce_min(tf.where(is_finite, numbers, tf.fill(tf.shape(numbers), infinity)))
    high = tf.reduce_max(tf.where(is_finite, numbers, tf.fill(tf.shape(numbers), -infinity)))
    ends = [tf.cast(low, tf.float64), tf.cast(high, tf.float64)]
    size = tf.cast(tf.size(numbers), tf.float64)
    return tf.stack([size, *counts, tf.reduce_sum(wide), tf.reduce_sum(wide * wide), *ends])


def _merge(row: Any, tensor: Any) -> None:
    before, new = row.read_value(), _row(tensor)
    ends = [tf.minimum(before[ADDED], new[ADDED]), tf.maximum(before[ADDED + 1], new[ADDED + 1])]
    row.assign(tf.concat([before[:ADDED] + new[:ADDED], tf.stack(ends)], 0))


class TensorflowWatches(Watches):
    """Implements ``Watches`` for TensorFlow."""

    def watching(self, model: Any, options: WatchOptions, listener: StepListener, asked: str) -> Watching:
        return TensorflowWatching(model, options, listener, asked)

    def scalar(self, number: Any) -> Any:
        if isinstance(number, tf.Tensor) and not is_eager(number):
            raise BadOption(
                "run.log was called in a graph",
                asked="run.log(...)",
                found="a tensor without numbers",
                next="return it from the tf.function, and call run.log outside of it",
            )
        found = numpy.asarray(number, numpy.float64)
        if found.size != 1:
            raise TypeError("not one number")
        return measured(found)

    def later(self, rows: Mapping[int, Sequence[Any]]) -> Callable[[], Mapping[int, Row]]:
        return later(rows, lambda one: tuple(one.numpy().tolist()))


def _refuse_others(options: WatchOptions, asked: str) -> None:
    # Raise BadOption if there is no optimizer, for one that is not from Keras or scales the loss, and for options that
    # only PyTorch has.
    for optimizer in options.optimizers:
        OPTIMIZER.check(optimizer, asked)
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            raise BadOption(
                "an optimizer that scales the loss cannot be watched",
                asked=asked,
                found="a LossScaleOptimizer",
                why="gradients are scaled when they come to it",
                next="dtype policy mixed_bfloat16, which needs none",
            )
    for name, is_given in (
        ("scaler=", options.scaler is not None),
        ("clipping=True", options.clipping),
        ("pace=bp.Pace(histogram=...)", options.magnitudes),
    ):
        if is_given:
            raise BadOption(f"{name} is for PyTorch", asked=asked, found="a model of Keras", next=f"leave out {name}")
    if not options.optimizers:
        raise BadOption(
            "a model of Keras is watched with its optimizer",
            asked=asked,
            why="it is given the gradients of parameters, and ends the steps",
            next="bp.watch(model, folder, optimizer=optimizer); in fit, optimizer=model.optimizer",
        )
