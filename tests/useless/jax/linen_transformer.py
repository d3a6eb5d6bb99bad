# from: https://github.com/google/flax/blob/main/examples/lm1b/models.py
# truth: healthy: causal and padding masks; positions that no text has keep a gradient of 0; padding weighs 0
# kind: healthy
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Lm(nn.Module):
    @nn.compact
    def __call__(self, ids):
        x = nn.Embed(14, 12)(ids) + self.param("position", nn.initializers.normal(0.02), (16, 12))[: ids.shape[1]]
        mask = nn.combine_masks(nn.make_attention_mask(ids > 0, ids > 0), nn.make_causal_mask(ids))
        x = x + nn.MultiHeadDotProductAttention(num_heads=2, use_bias=False)(nn.LayerNorm()(x), mask=mask)
        x = x + nn.Dense(12)(nn.gelu(nn.Dense(24)(nn.LayerNorm()(x))))
        return nn.Dense(14)(nn.LayerNorm()(x))


ids = 1 + (jnp.arange(10)[:, None] * 3 + jnp.arange(9)) % 13
ids = jnp.where(jnp.arange(9) < 4 + jnp.arange(10)[:, None] % 6, ids, 0)
model = Lm()
params = model.init(jax.random.key(0), ids[:, :-1])
tx = optax.adamw(5e-3)
state = tx.init(params)


@jax.jit
def step(params, state):
    def loss_fn(params):
        each = optax.softmax_cross_entropy_with_integer_labels(model.apply(params, ids[:, :-1]), ids[:, 1:])
        weights = ids[:, 1:] > 0
        return (each * weights).sum() / weights.sum()

    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


for epoch in range(4):
    params, state, loss = step(params, state)
    print(epoch, loss)
