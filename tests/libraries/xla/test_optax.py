"""optax: transforms that are more than a step, differentiated or around a loss."""

import jax
import jax.numpy as jnp
import optax
from in_jax import by

FRAMEWORK, LIBRARIES = "JAX", ("optax",)

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
    norm = optax.tree.norm(gradient)
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
    norm = optax.tree.norm(flat)
    scaled = jax.tree.map(lambda p: p / norm, flat)  # <- nan
    return mse(scaled, XS, YS) * meta


# trained, as users do: each with its optimizer

OPTIMIZERS = {
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


# asked


def test_meta_loss(ask):
    inputs = jnp.array(-1.0), PARAMS
    rec = ask.function(meta_loss, lambda: inputs)
    right = by(meta_loss, *inputs)
    ask.gradients(rec, {name.replace("params.", "params#0."): one for name, one in right.items()} | {"outer": 1.0})
    ask.names(rec, "meta", "lr", "outer", "params#2.w", "grads#0.w", "updates#1.b")
    slope = jax.nn.sigmoid(-1.0) * (1 - jax.nn.sigmoid(-1.0))
    ask.gradients(rec, {"lr": by(meta_loss, *inputs)["meta"] / slope})
    ask.clean(rec)
    ask.works("an inner optimizer that is differentiated, as in meta-learning")


def test_perturbed(ask):
    inputs = jnp.array([1.0, 2.0, 1.5]), jnp.array([1.0, -1.0, 2.0])
    rec = ask.function(perturbed, lambda: inputs)
    ask.gradients(rec, by(perturbed, *inputs) | {"picked": inputs[1]})
    ask.clean(rec)
    ask.works("`make_perturbed_fun` around an argmax")


def test_projected(ask):
    inputs = jnp.array([0.5, 0.2, -0.1]), jnp.array([1.0, 0.0, 0.0])
    rec = ask.function(projected, lambda: inputs)
    simplex, smooth = rec["simplex"].value, rec["smooth"].value
    ask.gradients(
        rec, {"simplex": 2 * (simplex - smooth), "smooth": -2 * (simplex - smooth), "labels": -1.8 * (simplex - smooth)}
    )
    ask.gradients(rec, by(projected, *inputs))
    ask.clean(rec)
    ask.works("projections, and losses such as `ctc_loss`")


def test_ctc(ask):
    inputs = jax.random.normal(jax.random.key(0), (2, 5, 4)), jnp.array([[1, 2], [3, 1]])
    rec = ask.function(ctc, lambda: inputs)
    ask.gradients(rec, by(ctc, *inputs) | {"per_sequence": jnp.full(2, 0.5)})
    ask.statuses(rec, {"labels": "not_float"})
    ask.clean(rec)


def test_sharpness_aware(ask):
    rec = ask.function(sharpness_aware, lambda: (PARAMS,))
    ask.gradients(rec, by(sharpness_aware, PARAMS))
    ask.names(rec, "norm", "moved.w", "gradient.w")
    ask.clean(rec)
    ask.works("gradients of gradients: sharpness-aware steps")


def test_planted(ask):
    inputs = jnp.array(-1.0), PARAMS
    ask.cut(ask.function(cut, lambda: inputs), cut)
    ask.nan(ask.function(nan, lambda: inputs, nonfinite=True), nan)


def updated(name):
    """Twenty steps with an optimizer, whose updates are told to the watch."""

    def training(around):
        transform, params, losses = OPTIMIZERS[name](), PARAMS, []
        state = transform.init(params)
        with around(mse) as run:
            value_and_grad = jax.value_and_grad(mse) if run is None else run.value_and_grad

            @jax.jit
            def step(params, state):
                value, grads = value_and_grad(params, XS, YS)
                updates, state = transform.update(grads, state, params)
                return value, updates, optax.apply_updates(params, updates), state

            for _ in range(20):
                value, updates, params, state = step(params, state)
                if run is not None:
                    value, stats = value
                    run.record(stats, updates=updates)
                losses.append(value)
        return run, jnp.stack(losses), params

    return training


def test_optimizers(ask):
    for name in OPTIMIZERS:
        last = ask.watched_function(updated(name))
        ask.rows(last, "params.w", "params.b")
        ask.that("update.ratio" in last.get("params.w", {}), f"{name}: no update of w: {last}")
        if name == "masked":
            ask.that(last["params.b"]["update.absmax"] == 0, f"b is frozen: {last['params.b']}")
    ask.works("steps of `MultiSteps`, `multi_transform`, `apply_if_finite`, and others under `bp.watch_function`")
