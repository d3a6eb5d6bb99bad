# from: https://github.com/MorvanZhou/PyTorch-Tutorial/issues/57
# exit: 3
# says: detach
# says: state
# The state of the last sequence has its graph, of which backward has kept nothing.
import torch
from torch import nn

torch.manual_seed(0)
cell, out = nn.GRUCell(3, 8), nn.Linear(8, 3)
optimizer = torch.optim.Adam([*cell.parameters(), *out.parameters()], lr=1e-2)


@torch.compile(backend="eager")
def unrolled(x, state):
    for step in x:
        state = cell(step, state)  # <- here
    return out(state), state


state = torch.zeros(2, 8)
for batch in range(3):
    x, y = torch.randn(4, 2, 3), torch.randn(2, 3)
    guess, state = unrolled(x, state)
    loss = (guess - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(batch, loss.item())
