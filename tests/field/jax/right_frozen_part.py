# from: https://github.com/patrick-kidger/equinox/issues/909
# never: stop_gradient
# never: got no gradient
import equinox as eqx
import jax
import jax.numpy as jnp

model = eqx.nn.MLP(3, 1, 4, 1, key=jax.random.key(0))
trained = jax.tree.map(lambda _: False, model)
trained = eqx.tree_at(lambda m: (m.layers[-1].weight, m.layers[-1].bias), trained, replace=(True, True))
differentiated, kept = eqx.partition(model, trained)


@eqx.filter_value_and_grad
def loss_of(differentiated, x):
    whole = eqx.combine(differentiated, kept)
    return jnp.mean(jax.vmap(whole)(x) ** 2)


for step in range(2):
    loss, gradients = loss_of(differentiated, jnp.ones((4, 3)))
    differentiated = eqx.apply_updates(differentiated, jax.tree.map(lambda g: -0.1 * g, gradients))
    print(step, float(loss))
