# from: own
# ask: explain
# exit: 1
# says: 2 gradients, all of them exactly 0
# never: all 2 parameters got a gradient
import torch

layer = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(2):
    advantage = torch.zeros(6)
    loss = (layer(torch.randn(6, 4))[:, 0] * advantage).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
