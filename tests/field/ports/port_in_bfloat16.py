# from: own
# ask: diff _mlp_in_torch.py:mlp PROGRAM:mlp x='randn(4,8)' w1='randn(8,16)' b1='randn(16)' w2='randn(16,8)' --cotangent 'randn(4,8)'
# exit: 1
# says: ^the output and 7 gradients agree
# says: float32 in the first, bfloat16 in the second
# never: 'a' (differs|is)
# The port computes in bfloat16 and gives back float32: where it begins to is a fact, and the rest agrees.
import jax
import jax.numpy as jnp


def mlp(x, w1, b1, w2):
    low = jnp.bfloat16
    h = x.astype(low) @ w1.astype(low) + b1.astype(low)  # <- here
    a = jax.nn.gelu(h, approximate=False)
    y = (a @ w2.astype(low)).astype(jnp.float32)
    return y
