# from: own
# ask: explain PROGRAM --steps 7 --of mean
# exit: 1
# says: steps 7 of mean
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=2)
parser.add_argument("--of", choices=["mean", "sum"], default="sum")
given = parser.parse_args()
print("steps", given.steps, "of", given.of)
torch.manual_seed(0)
body, head = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
for _ in range(given.steps):
    h = body(torch.randn(8, 3)).detach()  # <- here
    loss = getattr(head(h).square(), given.of)()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
