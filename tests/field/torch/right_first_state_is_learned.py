# from: https://github.com/MorvanZhou/PyTorch-Tutorial/issues/57
# never: got no gradient|exactly 0|useless|changes next to nothing|changes no|changes none|is dropped|cuts|cancel|unused|not used
# A learned first state in a compiled function, and states of a stream that are carried detached.
import torch
from torch import nn

torch.manual_seed(0)
cell, out = nn.GRUCell(3, 8), nn.Linear(8, 3)
first = nn.Parameter(torch.zeros(1, 8))
optimizer = torch.optim.Adam([*cell.parameters(), *out.parameters(), first], lr=1e-2)


@torch.compile(backend="eager")
def unrolled(x, state):
    for step in x:
        state = cell(step, state)
    return out(state), state


for stream in range(3):
    state = first.expand(2, 8)
    for chunk in range(2):
        x, y = torch.randn(4, 2, 3), torch.randn(2, 3)
        guess, state = unrolled(x, state)
        loss = (guess - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state = state.detach()
print(loss.item())
