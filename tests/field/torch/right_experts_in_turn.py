# from: own
# never: got no gradient
# never: was not called
import torch
from torch import nn

torch.manual_seed(0)
experts = nn.ModuleList(nn.Linear(3, 1) for _ in range(3))
optimizer = torch.optim.SGD(experts.parameters(), lr=0.1)
for step in range(6):
    x = torch.randn(8, 3)
    loss = (experts[step % 3](x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print([expert.weight.grad is None for expert in experts])
