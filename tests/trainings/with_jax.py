"""A training in JAX: its parts, how faults are planted in it, and the loop that it is watched in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import backprobe as bp


@dataclass
class Training:
    """Parameters, an optimizer, a batch for each step, and the losses of a batch, one for each sample."""

    params: Any
    optimizer: Any
    batch: Callable[[int], tuple[Any, ...]]
    each: Callable[..., Any]
    steps: int = 200
    plant: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    begun: int = 0  # the step of the run in which the fault was planted

    def run(self, folder, steps, fault=None):
        """Train for some steps, watched; the losses."""
        kind, losses, params, state = "", [], self.params, self.optimizer.init(self.params)
        with bp.watch_function(loss_of(self.each), folder) as run:

            @jax.jit
            def train(params, state, size, batch, signs, scale, stop):
                (loss, stats), gradients = run.value_and_grad(params, batch, signs, scale, stop)
                updates, state = self.optimizer.update(gradients, state, params)
                return optax.apply_updates(params, jax.tree.map(lambda each: each * size, updates)), state, loss, stats

            for step in range(steps):
                if fault and step == fault.at:
                    kind, self.begun = fault.kind, run.current_step
                    params = self.plant.get(kind, lambda params: params)(params)
                size = {"learning_rate": fault.size, "no_step": 0.0}.get(kind, 1.0) if fault else 1.0
                batch = spoilt(self.batch(step), kind, fault)
                params, state, loss, stats = train(params, state, size, batch, *settings(batch, kind))
                run.record(stats)
                losses.append(float(loss))
                run.log(loss=losses[-1])
        return losses


def loss_of(each):
    """The mean loss of a batch, as it is differentiated."""

    def loss_fn(params, batch, signs, scale, stop):
        losses = each(params, *batch)
        loss = scale * jnp.mean(signs * losses)
        return jnp.where(stop, jax.lax.stop_gradient(loss), loss)

    return loss_fn


def settings(batch, kind):
    """The signs of samples, the scale of the loss, and whether nothing is differentiated."""
    signs = np.ones(len(batch[0]), np.float32)
    if kind == "cancelling":
        signs[len(signs) // 2 :] = -1
    scale = {"wrong_sign": -1.0, "not_finite": np.nan}.get(kind, 1.0)
    return signs, np.float32(scale), kind == "zero_gradients"


def spoilt(batch, kind, fault):
    """A batch with what a fault does to it."""
    if kind == "cancelling":
        return tuple(np.concatenate([each, each]) for each in batch)
    if kind == "outlier":
        return (np.concatenate([batch[0][:1] * np.float32(fault.size * 100), batch[0][1:]]), *batch[1:])
    if kind == "wrong_labels":
        labels = batch[-1]
        return (*batch[:-1], (labels + 1) % 3 if labels.dtype.kind == "i" else np.float32(3) - labels)
    return batch


def optimizer_of(name, rate=None):
    """An optimizer by name, with a learning rate that suits it."""
    made = {
        "sgd": lambda: optax.sgd(rate or 0.02),
        "momentum": lambda: optax.sgd(rate or 0.005, momentum=0.9),
        "adam": lambda: optax.adam(rate or 3e-3),
        "adamw": lambda: optax.adamw(rate or 3e-3, weight_decay=0.01),
        "lion": lambda: optax.lion(rate or 3e-4),
        "cosine": lambda: optax.adam(optax.cosine_decay_schedule(rate or 3e-3, 200)),
    }
    return made[name]()


def layers(generator, *sizes):
    """Weights and biases of layers of these widths."""
    pairs = list(zip(sizes[:-1], sizes[1:], strict=True))
    weights = [generator.normal(size=pair).astype(np.float32) * (2 / pair[0]) ** 0.5 for pair in pairs]
    return {f"layer{i}": {"w": jnp.array(w), "b": jnp.zeros(w.shape[1])} for i, w in enumerate(weights)}
