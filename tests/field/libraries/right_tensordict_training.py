# from: https://github.com/pytorch/rl/issues/51
# never: got no gradient
import torch
from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn

torch.manual_seed(0)
encoder = TensorDictModule(nn.Sequential(nn.Linear(3, 8), nn.Tanh()), in_keys=["x"], out_keys=["hidden"])
value = TensorDictModule(nn.Linear(8, 1), in_keys=["hidden"], out_keys=["value"])
net = TensorDictSequential(encoder, value)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(3):
    batch = net(TensorDict({"x": torch.randn(16, 3)}, batch_size=[16]))
    loss = (batch["value"] - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print([float(p.grad.abs().sum()) for p in net.parameters()])
