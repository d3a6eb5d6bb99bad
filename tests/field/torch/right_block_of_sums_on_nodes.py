# from: own
# ask: python
# Messages are summed in place on nodes, in a loop: each has the gradient that retain_grad has.
import torch
from torch import nn

import backprobe as bp

torch.manual_seed(0)
source, target = torch.randint(0, 6, (2, 20))
x, lin = torch.randn(6, 4), nn.Linear(4, 4)
kept = []


def message_passing(x, keep=False):
    for _ in range(2):
        sums = torch.zeros_like(x)
        messages = lin(x)[source]
        if keep:
            messages.retain_grad()
            kept.append(messages)
        sums.index_add_(0, target, messages)
        x = (x + sums).tanh()
    return x


message_passing(x, keep=True).square().sum().backward()
with bp.probe() as rec:
    out = message_passing(x)
    loss = out.square().sum()
    loss.backward()
for number, one in enumerate(kept):
    assert torch.allclose(rec[f"/message_passing:messages#{number}"].grad, one.grad), number
report = bp.explain(rec)
assert report.ok, str(report)
