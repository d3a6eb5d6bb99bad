# from: own
# ask: health PROGRAM --steps 3
# says: ran 3 steps|no problems found
import sys

import torch

assert sys.argv[1:] == ["--steps", "3"], sys.argv
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(sys.argv[2])):
    loss = (model(torch.randn(16, 3)) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("ran", sys.argv[2], "steps")
