# from: own
# truth: optax.softmax_cross_entropy takes logits and is given probabilities
# kind: distribution twice
import jax
import jax.numpy as jnp
import optax


def loss(weight, bias, x, labels):
    probabilities = jax.nn.softmax(x @ weight + bias)
    return optax.softmax_cross_entropy_with_integer_labels(probabilities, labels).mean()  # <- here


keys = jax.random.split(jax.random.PRNGKey(0), 3)
PROBED = loss
GIVEN = (
    jax.random.normal(keys[0], (6, 4)),
    jnp.zeros(4),
    jax.random.normal(keys[1], (15, 6)),
    jax.random.randint(keys[2], (15,), 0, 4),
)
