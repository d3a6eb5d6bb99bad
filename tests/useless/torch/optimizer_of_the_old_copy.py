# from: https://github.com/microsoft/nni/issues/4521
# truth: the optimizer was made of the parameters before the pruned copy replaced the model, its step changes nothing
# kind: step changes nothing
import copy

import torch
from torch import nn


def pruned(model, keep):
    small = copy.deepcopy(model)
    first, last = model[0], model[2]
    small[0] = nn.Linear(first.in_features, keep)
    small[2] = nn.Linear(keep, last.out_features)
    best = first.weight.norm(dim=1).topk(keep).indices
    with torch.no_grad():
        small[0].weight.copy_(first.weight[best])
        small[0].bias.copy_(first.bias[best])
        small[2].weight.copy_(last.weight[:, best])
        small[2].bias.copy_(last.bias)
    return small


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
model = pruned(model, keep=8)
x = torch.randn(40, 5)
y = x.sum(1, keepdim=True)
for epoch in range(4):
    loss = nn.functional.mse_loss(model(x), y)
    model.zero_grad()
    loss.backward()
    optimizer.step()  # <- here
    print(epoch, loss.item())
