# from: own
# ask: explain --nonfinite
# exit: 1
# says: `torch\.acos\(turn\)`
# says: next: .*clamp
# never: is not known
import torch

angle = torch.nn.Parameter(torch.tensor([1.0, 0.0]))
optimizer = torch.optim.SGD([angle], lr=0.1)
for _ in range(3):
    turn = angle
    out = torch.acos(turn) * torch.tensor([0.0, 1.0])  # <- here
    optimizer.zero_grad()
    out.sum().backward()
    optimizer.step()
