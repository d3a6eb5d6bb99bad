# from: own
# ask: explain --nonfinite
# exit: 1
# says: `torch\.acos\(part\)`
# says: next: .*clamp
# never: is not known
import torch

angle = torch.nn.Parameter(torch.tensor([1.0, 0.0]))
optimizer = torch.optim.SGD([angle], lr=0.1)
for _ in range(3):
    part = angle[0:1]
    out = torch.acos(part) * angle[1]  # <- here
    optimizer.zero_grad()
    out.sum().backward()
    optimizer.step()
