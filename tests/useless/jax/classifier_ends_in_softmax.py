# from: https://github.com/tflearn/tflearn/pull/562
# truth: the classifier ends in a softmax and optax.softmax_cross_entropy_with_integer_labels takes another
# kind: distribution twice
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training import train_state


class Classifier(nn.Module):
    classes: int

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(16)(x))
        return nn.softmax(nn.Dense(self.classes)(x))


@jax.jit
def train_step(state, x, y):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()  # <- here

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


x = jax.random.normal(jax.random.key(0), (64, 6))
y = jnp.argmax(x[:, :4], 1)
model = Classifier(4)
params = model.init(jax.random.key(1), x)["params"]
state = train_state.TrainState.create(apply_fn=model.apply, params=params, tx=optax.adam(1e-2))
for epoch in range(4):
    state, loss = train_step(state, x, y)
    print(epoch, loss)
