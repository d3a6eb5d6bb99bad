# from: own
# ask: python
import torch
from entmax import sparsemax

import backprobe as bp


def f(x):
    y = sparsemax(x, dim=0)
    return (y * y).sum()


for values in ([3.0, 0.0, 0.5], [3.0, 0.0, -1.0], [30.0, 0.0, -1.0]):
    report = bp.check(f)(torch.tensor(values))
    assert "mask" not in str(report), report
