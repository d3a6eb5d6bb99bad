# from: own
# ask: python
import torch

import backprobe as bp

for make in (
    lambda: torch.rand(6, requires_grad=True).reshape(2, 3),
    lambda: 0.1 * torch.rand(2, 3, requires_grad=True),
    lambda: torch.nn.Parameter(torch.rand(2, 3)).to(torch.float64),
):
    with bp.probe() as rec:
        weight = make()
        loss = weight.square().sum()
        loss.backward()
    told = str(bp.explain(rec, "weight"))
    assert "not a leaf" in told, told
    assert "rec['weight'].grad" in told, told

with bp.probe() as rec:
    weight = torch.rand(2, 3, requires_grad=True)
    loss = weight.square().sum()
    loss.backward()
told = str(bp.explain(rec, "weight"))
assert "leaf" not in told, told
