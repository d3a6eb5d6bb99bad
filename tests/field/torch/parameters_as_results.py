# from: https://github.com/facebookresearch/higher
# ask: explain
# exit: 0
# says: all 4 parameters got a gradient
# A differentiable step puts plain tensors into the place of the parameters, as attributes.
import torch
from torch import nn

torch.manual_seed(0)
net, x = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)), torch.randn(6, 2)
leaves = dict(net.named_parameters())
outer = torch.optim.SGD(leaves.values(), lr=0.1)
grads = torch.autograd.grad(net(x).square().mean(), list(leaves.values()), create_graph=True)
for (name, leaf), grad in zip(leaves.items(), grads):
    module = net.get_submodule(name.rpartition(".")[0])
    delattr(module, name.rpartition(".")[2])
    setattr(module, name.rpartition(".")[2], leaf - 0.1 * grad)
loss = (net(x) - 1).square().mean()
loss.backward()
outer.step()
