# from: own
# exit: 1
# says: hyper
# says: functional_call
# A network makes the weights of another: they are given under a name that the other one does not have.
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
target = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
hyper = nn.Linear(3, 20)
optimizer = torch.optim.Adam([*hyper.parameters(), *target.parameters()], lr=1e-2)
for step in range(4):
    task, x, y = torch.randn(3), torch.randn(16, 4), torch.randn(16, 1)
    weights = {"0.weights": hyper(task).view(5, 4)}
    guess = functional_call(target, weights, (x,))  # <- here
    loss = nn.functional.mse_loss(guess, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
