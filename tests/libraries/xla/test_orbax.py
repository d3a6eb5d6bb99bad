"""orbax: parameters that were saved and come back, and what is computed from them."""

import jax
import jax.numpy as jnp
import optax
import orbax.checkpoint as ocp
from in_jax import by, descending

FRAMEWORK, LIBRARIES = "JAX", ("orbax-checkpoint",)

X = jnp.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
PARAMS = {"hidden": {"kernel": jnp.full((3, 4), 0.3), "bias": jnp.zeros(4)}, "out": {"kernel": jnp.full((4, 1), -0.2)}}


def predict(params, x):
    hidden = jnp.tanh(x @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    return hidden @ params["out"]["kernel"]


def loss_fn(params, x):
    out = predict(params, x)
    return jnp.mean((out - 1.0) ** 2)


# https://orbax.readthedocs.io/en/latest/guides/checkpoint/orbax_checkpoint_101.html


def restored(folder, params=PARAMS):
    """As they come back where shapes and dtypes are said."""
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder / "state", params)
        checkpointer.wait_until_finished()
        return checkpointer.restore(folder / "state", jax.tree.map(ocp.utils.to_shape_dtype_struct, params))


def restored_numpy(folder, params=PARAMS):
    """As they come back where nothing is said: the tree as it was saved."""
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(folder / "plain", params)
    return checkpointer.restore(
        folder / "plain",
        restore_args=jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=__import__("numpy").ndarray), params),
    )


# https://orbax.readthedocs.io/en/latest/guides/checkpoint/checkpoint_manager.html (a training that goes on)


def resumed(folder, steps):
    optimizer = optax.adam(0.05)
    options = ocp.CheckpointManagerOptions(max_to_keep=2, save_interval_steps=2, enable_async_checkpointing=False)
    params, state = PARAMS, optimizer.init(PARAMS)
    with ocp.CheckpointManager(folder / "managed", options=options) as manager:
        for step in range(steps):
            grads = jax.grad(loss_fn)(params, X)
            updates, state = optimizer.update(grads, state)
            params = optax.apply_updates(params, updates)
            manager.save(
                step, args=ocp.args.Composite(params=ocp.args.StandardSave(params), state=ocp.args.StandardSave(state))
            )
        latest = manager.latest_step()
        back = manager.restore(
            latest,
            args=ocp.args.Composite(params=ocp.args.StandardRestore(params), state=ocp.args.StandardRestore(state)),
        )
    return back.params, back.state, latest


# frozen layers from a checkpoint, and a head that is trained


def transfer_loss(head, backbone, x):
    features = jnp.tanh(x @ backbone["kernel"] + backbone["bias"])
    logits = features @ head["kernel"]
    return jnp.mean(logits**2)


# planted


def cut(params, x):
    backbone = jax.lax.stop_gradient(params["hidden"])  # <- cut
    hidden = jnp.tanh(x @ backbone["kernel"] + backbone["bias"])
    return jnp.mean((hidden @ params["out"]["kernel"]) ** 2)


def nan(params, x):
    hidden = x @ params["hidden"]["kernel"]
    root = jnp.sqrt(hidden)  # <- nan
    return jnp.mean(root @ params["out"]["kernel"])


# asked


def test_restored(ask, tmp_path):
    params = restored(tmp_path)
    rec = ask.function(loss_fn, lambda: (params, X))
    ask.gradients(rec, by(loss_fn, PARAMS, X))
    out = predict(PARAMS, X)
    hidden = jnp.tanh(X @ PARAMS["hidden"]["kernel"])
    ask.gradients(rec, {"out": out - 1, "params.out.kernel": hidden.T @ (out - 1)})
    ask.names(rec, "params.hidden.kernel", "params.hidden.bias", "/predict:hidden", "out")
    ask.statuses(rec, {"params.hidden.kernel": "ok"})
    ask.clean(rec)
    ask.works("parameters from `StandardCheckpointer`, as those that were saved")


def test_restored_as_numpy(ask, tmp_path):
    params = restored_numpy(tmp_path)
    rec = ask.function(transfer_loss, lambda: (params["out"], params["hidden"], X))
    ask.gradients(rec, by(transfer_loss, PARAMS["out"], PARAMS["hidden"], X))
    ask.names(rec, "head.kernel", "backbone.kernel", "features", "logits")
    ask.clean(rec)
    ask.works("arrays of NumPy, as `PyTreeCheckpointer` gives them")


def test_resumed(ask, tmp_path):
    params, _, latest = resumed(tmp_path, 5)
    rec = ask.function(loss_fn, lambda: (params, X))
    ask.that(latest == 4, f"the last step is {latest}")
    ask.gradients(rec, by(loss_fn, params, X))
    last = ask.watched_function(descending(loss_fn, params, [(X,)] * 20))
    ask.rows(last, "params.hidden.kernel", "out", "/predict:hidden")
    ask.works("a training that goes on from `CheckpointManager`, under `bp.watch_function`")


def test_planted(ask, tmp_path):
    params = restored(tmp_path)
    ask.cut(ask.function(cut, lambda: (params, X)), cut)
    ask.nan(ask.function(nan, lambda: (params, -X), nonfinite=True), nan)
