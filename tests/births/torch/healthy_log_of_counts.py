# from: own
# ask: explain --nonfinite
# birth: healthy
# given: prior
"""A table of counts has zeros, and a logarithm of them hides words that may not come."""

import torch

torch.manual_seed(0)
counts = torch.tensor([3.0, 0.0, 1.0, 2.0])
prior = counts.log()
logits = torch.nn.Parameter(torch.zeros(4))
optimizer = torch.optim.SGD([logits], lr=0.5)
for _ in range(3):
    shares = (logits + prior).softmax(0)
    loss = -shares[0].log()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
