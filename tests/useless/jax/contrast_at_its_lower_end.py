# from: https://github.com/openai/CLIP/issues/46
# truth: the logit scale begins below the lower end of its clip, where that is flat, and so stays where it is
# kind: zero
# names: logit_scale
import jax
import jax.numpy as jnp
import optax


def init(key):
    first, second = jax.random.split(key)
    return {
        "image": jax.random.normal(first, (10, 6)) * 0.3,
        "text": jax.random.normal(second, (7, 6)) * 0.3,
        "logit_scale": jnp.array(-0.5),
    }


def normalized(x):
    return x / jnp.linalg.norm(x, axis=-1, keepdims=True)


def contrastive(params, images, texts):
    scale = jnp.exp(jnp.clip(params["logit_scale"], 0.0, jnp.log(100.0)))  # <- here
    logits = scale * normalized(images @ params["image"]) @ normalized(texts @ params["text"]).T
    labels = jnp.arange(len(logits))
    rows = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    columns = optax.softmax_cross_entropy_with_integer_labels(logits.T, labels)
    return (rows.mean() + columns.mean()) / 2


params = init(jax.random.key(0))
optimizer = optax.adam(1e-2)
state = optimizer.init(params)
for step in range(4):
    keys = jax.random.split(jax.random.key(step))
    images, texts = jax.random.normal(keys[0], (8, 10)), jax.random.normal(keys[1], (8, 7))
    loss, grads = jax.value_and_grad(contrastive)(params, images, texts)
    updates, state = optimizer.update(grads, state)
    params = optax.apply_updates(params, updates)
    print(step, float(loss), float(params["logit_scale"]))
