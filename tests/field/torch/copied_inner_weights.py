# from: https://github.com/facebookresearch/higher/issues/69
# exit: 1
# says: functional_call|detach
# never: all \d+ parameters got
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
model = nn.Linear(1, 1, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.ones(4, 1), torch.full((4, 1), 2.0)
for step in range(2):
    fast = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    inner = nn.functional.mse_loss(functional_call(model, fast, (x,)), y)
    slopes = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
    fast = {name: value - 0.1 * slope for (name, value), slope in zip(fast.items(), slopes, strict=True)}
    loss = nn.functional.mse_loss(functional_call(model, fast, (x,)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(model.weight.grad)
