# from: own
# never: no optimizer
import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 8), nn.Linear(8, 1)
of_body, of_head = torch.optim.SGD(body.parameters(), lr=0.1), torch.optim.Adam(head.parameters())
for step in range(6):
    one = of_head if step % 2 else of_body
    for each in (of_body, of_head):
        each.zero_grad()
    head(body(torch.randn(8, 4)).relu()).square().mean().backward()
    one.step()
