# from: own
# ask: python
import warnings

import torch
import torchopt

import backprobe as bp


def step():
    torch.manual_seed(0)
    net, x = torch.nn.Linear(2, 1), torch.ones(6, 2)
    leaf, inner = net.weight, torchopt.MetaSGD(net, lr=0.1)
    inner.step(net(x).square().mean())
    outer = (net(x) - 1).square().mean()
    outer.backward()
    return leaf.grad


warnings.simplefilter("error")
bare = step()
with bp.probe() as rec:
    probed = step()
assert torch.equal(bare, probed)
told = str(bp.explain(rec))
assert "got no gradient" not in told, told
