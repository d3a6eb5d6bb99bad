# from: own
# ask: explain
# exit: 1
# says: the derivative of acos is infinite at 1
# never: bind each operation
import torch

angle = torch.nn.Parameter(torch.tensor([1.0, 0.0]))
optimizer = torch.optim.Adam([angle], lr=0.1)
for _ in range(2):
    turn = angle
    out = torch.acos(turn) * torch.tensor([0.0, 1.0])  # <- here
    optimizer.zero_grad()
    out.sum().backward()
    optimizer.step()
