# from: https://github.com/google/flax/issues/963
# ask: diff _attention_in_torch.py:attention PROGRAM:attention x='randn(2,5,8)' wq='randn(8,8)' wk='randn(8,8)' wv='randn(8,8)' wo='randn(8,8)' --cotangent 'randn(2,5,8)'
# exit: 0
# never: differs? first
# Heads stay behind the tokens, and einsum says what is summed.
import jax
import jax.numpy as jnp


def attention(x, wq, wk, wv, wo):
    q, k, v = ((x @ w).reshape(*x.shape[:2], 2, 4) for w in (wq, wk, wv))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 2
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape)
    out = mixed @ wo
    return out
