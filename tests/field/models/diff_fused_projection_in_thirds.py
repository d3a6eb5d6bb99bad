# from: https://github.com/lablup/mlxcel/pull/928
# ask: diff PROGRAM:reference PROGRAM:port x='randn(2,5,8)' --cotangent 'ones(2,5,8)'
# exit: 1
# says: ^values differ first at 'q'
# says: what it is computed from agrees: .*'qkv'
# never: 'qkv' differs
# The fused projection holds q, k and v of one head beside each other, and the port takes all q first.
import torch

torch.manual_seed(0)
HEADS, WIDTH = 2, 4
fused = torch.nn.Linear(8, 24)


def attend(q, k, v):
    weights = (q.transpose(1, 2) @ k.permute(0, 2, 3, 1) / WIDTH**0.5).softmax(-1)
    return (weights @ v.transpose(1, 2)).transpose(1, 2).flatten(2)


def reference(x):
    qkv = fused(x)
    q, k, v = qkv.view(*x.shape[:2], HEADS, 3 * WIDTH).chunk(3, -1)
    out = attend(q, k, v)
    return out


def port(x):
    qkv = fused(x)
    q, k, v = (part.view(*x.shape[:2], HEADS, WIDTH) for part in qkv.chunk(3, -1))  # <- here
    out = attend(q, k, v)
    return out
