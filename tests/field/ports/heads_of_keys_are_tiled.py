# from: https://github.com/onnx/onnx/pull/7274
# ask: diff _groups_in_torch.py:attention PROGRAM:attention x='randn(2,5,8)' wq='randn(8,8)' wk='randn(8,4)' wv='randn(8,4)' wo='randn(8,8)' --cotangent 'randn(2,5,8)'
# exit: 1
# says: ^values differ first at 'keys'
# never: values differ first at 'weights'
# Heads in turn instead of side by side.
import jax
import jax.numpy as jnp


def attention(x, wq, wk, wv, wo):
    q, k, v = ((x @ w).reshape(2, 5, -1, 2).swapaxes(1, 2) for w in (wq, wk, wv))
    keys, values = jnp.tile(k, (1, 2, 1, 1)), jnp.tile(v, (1, 2, 1, 1))  # <- here
    weights = jax.nn.softmax(q @ keys.mT / 2**0.5)
    mixed = weights @ values
    out = mixed.swapaxes(1, 2).reshape(x.shape) @ wo
    return out
