# from: own
# exit: 0
# never: no optimizer
# Half is stepped by an optimizer of PyTorch, half by a class of the program that is none.
import torch
from torch import nn


class Signs:
    def __init__(self, parameters):
        self.parameters = [*parameters]

    @torch.no_grad()
    def step(self):
        for one in self.parameters:
            one.add_(one.grad.sign(), alpha=-1e-3)
            one.grad = None


torch.manual_seed(0)
body, head = nn.Linear(4, 8), nn.Linear(8, 1)
of_body, of_head = torch.optim.SGD(body.parameters(), lr=0.1), Signs(head.parameters())
for _ in range(4):
    of_body.zero_grad()
    head(body(torch.randn(8, 4)).relu()).square().mean().backward()
    of_body.step()
    of_head.step()
