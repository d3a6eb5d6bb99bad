# from: own
# ask: explain
# exit: 1
# says: gain
# never: optimizer\.step
import torch

scale = torch.ones(3)
gain = torch.ones(3, requires_grad=True)
x = torch.arange(3.0, requires_grad=True)
optimizer = torch.optim.SGD([x, gain], lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    scale.mul(gain)
    loss = (x * scale).sum()
    loss.backward()
    optimizer.step()
