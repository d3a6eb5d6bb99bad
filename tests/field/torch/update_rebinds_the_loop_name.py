# from: https://mlkatas.com/kata/23
# exit: 1
# says: parameter = parameter - 0\.1 \* parameter\.grad
# says: the parameters? (is|are|stays?|stay|keeps?)|changes no|changes none|new (value|tensor)
# never: ^all 4 parameters got a gradient$
# Written without `-=`: the name of the loop gets a new tensor in each turn, and the network keeps its weights.
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
x = torch.randn(32, 3)
y = x.sum(1, keepdim=True)
for epoch in range(4):
    loss = (net(x) - y).square().mean()
    net.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter = parameter - 0.1 * parameter.grad  # <- here
    print(epoch, loss.item())
