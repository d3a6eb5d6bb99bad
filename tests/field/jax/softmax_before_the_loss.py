# from: own
# exit: 1
# says: applied to what softmax has made
# says: leave out the first softmax
# The network returns probabilities, and the loss expects logits.
import equinox as eqx
import jax
import optax


class Net(eqx.Module):
    first: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self, key):
        one, other = jax.random.split(key)
        self.first, self.last = eqx.nn.Linear(4, 8, key=one), eqx.nn.Linear(8, 3, key=other)

    def __call__(self, x):
        return jax.nn.softmax(self.last(jax.nn.relu(self.first(x))))


net, tx = Net(jax.random.key(0)), optax.adam(1e-2)
state = tx.init(eqx.filter(net, eqx.is_array))
x = jax.random.normal(jax.random.key(1), (16, 4))
y = jax.random.randint(jax.random.key(2), (16,), 0, 3)


@eqx.filter_value_and_grad
def loss_fn(net, x, y):
    logits = jax.vmap(net)(x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()  # <- here


for _ in range(3):
    loss, grads = loss_fn(net, x, y)
    updates, state = tx.update(grads, state)
    net = eqx.apply_updates(net, updates)
