# from: https://github.com/fangwei123456/spikingjelly/issues/280
# ask: python
import torch

import backprobe as bp

with bp.probe() as rec:
    x = torch.rand(4, requires_grad=True).double()
    loss = (x * 2).sum()
    loss.backward()
told = str(bp.explain(rec, "x"))
assert "not a leaf" in told, told
assert "its own .grad is None" in told, told
assert "rec['x'].grad" in told, told
assert rec["x"].grad.tolist() == [2.0] * 4
