"""optax: transforms that are more than a step, differentiated or around a loss."""

import jax
import jax.numpy as jnp
import optax

XS = jnp.array([[1.0, 2.0], [0.5, -1.0], [-1.5, 0.25]])
YS = jnp.array([1.0, -0.5, 0.75])


def mse(params, xs, ys):
    prediction = xs @ params["w"] + params["b"]
    error = prediction - ys
    return jnp.mean(error**2)


PARAMS = {"w": jnp.array([0.5, -0.25]), "b": jnp.array(0.1)}

# https://optax.readthedocs.io/en/latest/_collections/examples/meta_learning.html


def meta_loss(meta, params):
    lr = jax.nn.sigmoid(meta)
    inner = optax.sgd(lr, momentum=0.9)
    state = inner.init(params)
    for _ in range(2):
        grads = jax.grad(mse)(params, XS, YS)
        updates, state = inner.update(grads, state)
        params = optax.apply_updates(params, updates)
    outer = mse(params, XS, YS)
    return outer


# https://optax.readthedocs.io/en/latest/_collections/examples/perturbations.html


def argmax_one_hot(x):
    return jax.nn.one_hot(jnp.argmax(x), x.shape[-1])


def perturbed(scores, values):
    soft = optax.perturbations.make_perturbed_fun(argmax_one_hot, num_samples=64, sigma=0.5)
    picked = soft(jax.random.key(0), scores)
    return jnp.vdot(picked, values)


# https://optax.readthedocs.io/en/latest/api/projections.html and losses


def projected(scores, labels):
    simplex = optax.projections.projection_simplex(scores)
    smooth = optax.smooth_labels(labels, 0.1)
    loss = jnp.sum((simplex - smooth) ** 2)
    return loss


def ctc(logits, labels):
    paddings = jnp.zeros(logits.shape[:2])
    label_paddings = jnp.zeros(labels.shape)
    per_sequence = optax.ctc_loss(logits, paddings, labels, label_paddings)
    return jnp.mean(per_sequence)


# https://optax.readthedocs.io/en/latest/api/contrib.html (sharpness aware, transparently)


def sharpness_aware(params):
    gradient = jax.grad(mse)(params, XS, YS)
    norm = optax.global_norm(gradient)
    moved = jax.tree.map(lambda p, g: p + 0.05 * g / norm, params, gradient)
    return mse(moved, XS, YS)


# planted


def cut(meta, params):
    lr = jax.lax.stop_gradient(jax.nn.sigmoid(meta))  # <- cut
    inner = optax.sgd(lr)
    grads = jax.grad(mse)(params, XS, YS)
    updates, _ = inner.update(grads, inner.init(params))
    params = optax.apply_updates(params, updates)
    return mse(params, XS, YS)


def nan(meta, params):
    flat = jax.tree.map(jnp.zeros_like, params)
    norm = optax.global_norm(flat)
    scaled = jax.tree.map(lambda p: p / norm, flat)  # <- nan
    return mse(scaled, XS, YS) * meta


# trained, as users do: each with its optimizer

OPTIMIZERS = {
    "lookahead": lambda: optax.lookahead(optax.sgd(0.1), sync_period=3, slow_step_size=0.5),
    "multi steps": lambda: optax.MultiSteps(optax.adam(0.05), every_k_schedule=2),
    "masked": lambda: optax.multi_transform(
        {"train": optax.adam(0.05), "freeze": optax.set_to_zero()}, {"w": "train", "b": "freeze"}
    ),
    "if finite": lambda: optax.apply_if_finite(optax.adamw(0.05), max_consecutive_errors=2),
    "schedule free": lambda: optax.contrib.schedule_free_sgd(0.1),
    "injected": lambda: optax.inject_hyperparams(optax.rmsprop)(learning_rate=0.05),
    "clipped": lambda: optax.chain(optax.adaptive_grad_clip(0.1), optax.centralize(), optax.sgd(0.1)),
    "partitioned": lambda: optax.chain(optax.add_noise(0.1, 0.55, jax.random.key(1)), optax.lion(0.02)),
}
