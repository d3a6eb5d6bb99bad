# from: own
# never: no optimizer
# The head's parameters are stepped by hand, in three usual ways.
import torch
from torch import nn

torch.manual_seed(0)
body, head, last = nn.Linear(4, 8), nn.Linear(8, 3), nn.Linear(3, 1, bias=False)
optimizer = torch.optim.SGD(body.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    head.zero_grad()
    last.zero_grad()
    last(head(body(torch.randn(8, 4)).relu())).square().mean().backward()
    optimizer.step()
    with torch.no_grad():
        head.weight -= 0.1 * head.weight.grad
    head.bias.data = head.bias.data - 0.1 * head.bias.grad
    last.weight.data.sub_(last.weight.grad, alpha=0.1)
