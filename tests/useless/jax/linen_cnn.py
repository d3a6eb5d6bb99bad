# from: https://github.com/google/flax/blob/main/examples/mnist/train.py
# truth: healthy: logits and one-hot labels in optax.softmax_cross_entropy; some ReLU units are dead
# kind: healthy
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training import train_state


class Cnn(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(features=4, kernel_size=(3, 3))(x))
        x = nn.avg_pool(x, window_shape=(2, 2), strides=(2, 2))
        x = x.reshape((x.shape[0], -1))
        x = nn.relu(nn.Dense(features=16)(x))
        return nn.Dense(features=3)(x)


@jax.jit
def train_step(state, images, labels):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, images)
        return jnp.mean(optax.softmax_cross_entropy(logits=logits, labels=jax.nn.one_hot(labels, 3)))

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


labels = jnp.arange(30) % 3
images = jax.random.normal(jax.random.key(0), (30, 6, 6, 1)) + labels[:, None, None, None]
cnn = Cnn()
params = cnn.init(jax.random.key(1), images[:1])["params"]
state = train_state.TrainState.create(apply_fn=cnn.apply, params=params, tx=optax.sgd(0.1, 0.9))
for epoch in range(4):
    state, loss = train_step(state, images, labels)
    print(epoch, loss)
