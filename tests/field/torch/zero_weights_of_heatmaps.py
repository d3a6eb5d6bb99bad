# from: https://github.com/DeepLabCut/DeepLabCut/issues/2751
# exit: 1
# says: exactly (0|zero)|all of them (0|zero)|every gradient is
# never: all \d+ parameters got a gradient
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.Conv2d(4, 2, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(3):
    image, heat = torch.randn(2, 1, 6, 6), torch.rand(2, 2, 6, 6)
    visible = torch.full((2, 2), -1.0)
    weights = (visible > 0).float()[..., None, None].expand_as(heat)
    loss = (weights * (net(image) - heat).square()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item(), max(float(p.grad.abs().max()) for p in net.parameters()))
