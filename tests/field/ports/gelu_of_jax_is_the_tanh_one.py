# from: https://github.com/huggingface/pytorch-image-models/pull/2105
# ask: diff _mlp_in_torch.py:mlp PROGRAM:mlp x='randn(4,8)' w1='randn(8,16)' b1='randn(16)' w2='randn(16,8)' --cotangent 'randn(4,8)'
# exit: 1
# says: ^values differ first at 'a'
# says: what it is computed from agrees: .*'h'
# never: 'h' differs
import jax


def mlp(x, w1, b1, w2):
    h = x @ w1 + b1
    a = jax.nn.gelu(h)  # <- here
    y = a @ w2
    return y
