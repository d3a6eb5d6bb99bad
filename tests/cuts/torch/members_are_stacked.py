# from: https://pytorch.org/docs/stable/generated/torch.func.stack_module_state.html
# ask: explain
# kind: same_numbers
# name: 0.weight
# missing: members[0].weight.grad
# moves: members[0].weight.data *= 1.5
"""The members of an ensemble are stacked in each step, and the optimizer has the members."""

import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

torch.manual_seed(0)
members, temperature = nn.ModuleList(nn.Linear(4, 1) for _ in range(3)), nn.Parameter(torch.ones(()))
optimizer = torch.optim.SGD([*members.parameters(), temperature], lr=0.1)
x, y = torch.randn(9, 4), torch.randn(9, 1)


def of_one(params, buffers, batch):
    return functional_call(members[0], (params, buffers), (batch,))


for _ in range(3):
    params, buffers = stack_module_state(list(members))  # <- here
    each = vmap(of_one, in_dims=(0, 0, None))(params, buffers, x)
    loss = (temperature * each.mean(0) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
