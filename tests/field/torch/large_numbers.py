# from: own
# ask: python
import torch

import backprobe as bp


def clamped(x):
    y = x.clamp(0, 1)
    return y.sum()


def rectified(x):
    y = x.relu()
    return (y * y).sum()


def shares(x):
    y = torch.nn.functional.normalize(x.relu(), p=1, dim=0)
    return (y * y).sum()


for function in (clamped, rectified, shares):
    for values in ([3.0, 0.5, -1.0], [3.0, 0.2, -1.0], [30.0, 0.1, -1.0]):
        told = str(bp.check(function)(torch.tensor(values)))
        assert "mask" not in told, told
