# from: https://github.com/google/flax/issues/963
# ask: diff _attention_in_torch.py:attention PROGRAM:attention x='randn(2,5,8)' wq='randn(8,8)' wk='randn(8,8)' wv='randn(8,8)' wo='randn(8,8)' --cotangent 'randn(2,5,8)'
# exit: 1
# says: ^values differ first at '(mask|weights)'
# never: 'scores' differs
# The port's mask lets each token see the next one too.
import jax
import jax.numpy as jnp


def attention(x, wq, wk, wv, wo):
    q, k, v = ((x @ w).reshape(*x.shape[:2], 2, 4).swapaxes(1, 2) for w in (wq, wk, wv))
    scores = q @ k.mT / 2
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool), 1)  # <- here
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
    mixed = (weights @ v).swapaxes(1, 2).reshape(x.shape)
    out = mixed @ wo
    return out
