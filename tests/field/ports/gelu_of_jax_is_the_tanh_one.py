# from: https://github.com/huggingface/pytorch-image-models/pull/2105
# ask: diff _mlp_in_torch.py:mlp PROGRAM:mlp x='randn(4,8)' w1='randn(8,16)' b1='randn(16)' w2='randn(16,8)' --cotangent 'randn(4,8)'
# exit: 1
# says: gradients differ first at 'h'
# says: it flows back from 'a'
# says: the value of 'a' differs, too, by 8\.\de-05, and what it is computed from by \d\.\de-08
# says: next: noise=bp\.noise_floor
# Behind the rounding of a product the floor is that of float32, and the two functions are within it: what is sure is
# that the gradient differs there, and the value far more than its input.
import jax


def mlp(x, w1, b1, w2):
    h = x @ w1 + b1
    a = jax.nn.gelu(h)  # <- here
    y = a @ w2
    return y
