# from: https://github.com/MorvanZhou/PyTorch-Tutorial/issues/57
# never: got no gradient|cuts|not used|unused|was not called
# says: all 8 parameters got a gradient
# The encoder makes the first state of each stream, and the chunks behind the first carry a detached one.
import torch
from torch import nn

torch.manual_seed(0)
encoder, cell, out = nn.Linear(3, 8), nn.GRUCell(3, 8), nn.Linear(8, 3)
optimizer = torch.optim.Adam([*cell.parameters(), *out.parameters(), *encoder.parameters()], lr=1e-2)
for stream in range(3):
    state = encoder(torch.randn(2, 3))
    for chunk in range(3):
        x, y = torch.randn(4, 2, 3), torch.randn(2, 3)
        for step in x:
            state = cell(step, state)
        loss = (out(state) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state = state.detach()
