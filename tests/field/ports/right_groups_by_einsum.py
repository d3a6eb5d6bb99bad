# from: https://github.com/SHI-Labs/NATTEN/issues/92
# ask: diff _groups_in_torch.py:attention PROGRAM:attention x='randn(2,5,8)' wq='randn(8,8)' wk='randn(8,4)' wv='randn(8,4)' wo='randn(8,8)' --cotangent 'randn(2,5,8)'
# exit: 0
# never: differs? first
# No head is repeated: queries have an axis for their group.
import jax
import jax.numpy as jnp


def attention(x, wq, wk, wv, wo):
    q = (x @ wq).reshape(2, 5, 2, 2, 2)
    k, v = (x @ wk).reshape(2, 5, 2, 2), (x @ wv).reshape(2, 5, 2, 2)
    weights = jax.nn.softmax(jnp.einsum("bqgrd,bkgd->bgrqk", q, k) / 2**0.5)
    mixed = jnp.einsum("bgrqk,bkgd->bqgrd", weights, v)
    out = mixed.reshape(x.shape) @ wo
    return out
