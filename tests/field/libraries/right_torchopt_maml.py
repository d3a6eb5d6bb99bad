# from: https://github.com/metaopt/torchopt/pull/101
# never: got no gradient
# never: is not a leaf
import torch
import torchopt
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
outer = torch.optim.Adam(net.parameters(), lr=1e-2)
inner = torchopt.MetaSGD(net, lr=0.1)
for step in range(2):
    start, start_state = torchopt.extract_state_dict(net), torchopt.extract_state_dict(inner)
    x = torch.rand(8, 1) * 4
    y = torch.sin(x + step)
    inner.step(nn.functional.mse_loss(net(x[:4]), y[:4]))
    loss = nn.functional.mse_loss(net(x[4:]), y[4:])
    outer.zero_grad()
    loss.backward()
    outer.step()
    torchopt.recover_state_dict(net, start)
    torchopt.recover_state_dict(inner, start_state)
print([float(p.grad.abs().sum()) for p in net.parameters()])
