"""A training in Keras with TensorFlow: its parts, how faults are planted in it, and the loop that it is watched in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

import backprobe as bp

WHAT = ("value", "grad", "param", "update")


@dataclass
class Training:
    """A model, its optimizer, a batch for each step, and the losses of a batch, one for each sample."""

    model: Any
    optimizer: Any
    batch: Callable[[int], tuple[tf.Tensor, ...]]
    each: Callable[..., tf.Tensor]
    steps: int = 80
    plant: dict[str, Callable[[], None]] = field(default_factory=dict)
    begun: int = 0  # the step of the run in which the fault was planted

    def run(self, folder, steps, fault=None):
        """Train for some steps, watched; the losses."""
        kind, losses = "", []
        with bp.watch(self.model, folder, what=WHAT, optimizer=self.optimizer) as run:
            for step in range(steps):
                if fault and step == fault.at:
                    kind, self.begun = fault.kind, run.current_step
                    self._begin(fault)
                losses.append(self._step(self.batch(step), kind, fault))
                run.log(loss=losses[-1])
        return losses

    def _begin(self, fault):
        if fault.kind in self.plant:
            self.plant[fault.kind]()
        elif fault.kind == "learning_rate":
            self.optimizer.learning_rate = float(self.optimizer.learning_rate) * fault.size

    def _step(self, batch, kind, fault):
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            losses = self.each(*spoilt(batch, kind, fault))
            if kind == "cancelling":
                signs = tf.concat([tf.ones(len(losses) // 2), -tf.ones(len(losses) // 2)], 0)
                losses = signs * losses
            loss = tf.reduce_mean(losses)
            if kind == "not_finite":
                loss = loss * tf.math.log(0.0) * 0.0
            given = -loss if kind == "wrong_sign" else loss * 0.0 if kind == "zero_gradients" else loss
        gradients = tape.gradient(given, variables)
        if kind != "no_step":
            self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return float(given if kind == "wrong_sign" else loss)


def spoilt(batch, kind, fault):
    """A batch with what a fault does to it."""
    if kind == "cancelling":
        return tuple(tf.concat([each, each], 0) for each in batch)
    if kind == "outlier":
        return (tf.concat([batch[0][:1] * fault.size * 100, batch[0][1:]], 0), *batch[1:])
    if kind == "wrong_labels":
        labels = batch[-1]
        return (*batch[:-1], (labels + 1) % 3 if labels.dtype.is_integer else 3.0 - labels)
    return batch


def optimizer_of(name, rate=None):
    """An optimizer by name, with a learning rate that suits it."""
    made = {
        "sgd": lambda: keras.optimizers.SGD(rate or 0.02),
        "momentum": lambda: keras.optimizers.SGD(rate or 0.005, momentum=0.9),
        "adam": lambda: keras.optimizers.Adam(rate or 3e-3),
        "rmsprop": lambda: keras.optimizers.RMSprop(rate or 1e-3),
    }
    return made[name]()


def seeded(seed):
    """A generator, after the framework's own was seeded."""
    keras.utils.set_random_seed(seed)
    return tf.random.Generator.from_seed(seed + 1000)
