# from: own
# ask: explain PROGRAM --steps 5
# says: ran 5 steps
# never: got no gradient
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=2)
steps = parser.parse_args().steps
torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print("ran", steps, "steps")
for _ in range(steps):
    loss = (model(torch.randn(8, 3)) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
