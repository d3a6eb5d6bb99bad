# from: own
# ask: explain
# exit: 0
# says: all 2 parameters got a gradient
# never: exactly 0
# The first batch has no positive, the second has: the first alone says nothing.
import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    positive = torch.full((8,), float(step > 0))
    loss = (model(torch.randn(8, 3))[:, 0].square() * positive).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
