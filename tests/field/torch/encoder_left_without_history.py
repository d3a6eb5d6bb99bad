# from: https://github.com/pytorch/pytorch/issues/19806
# exit: 1
# says: no_grad
import torch
from torch import nn

torch.manual_seed(0)
encoder, head = nn.Sequential(nn.Linear(4, 6), nn.Tanh()), nn.Linear(6, 2)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-2)


def features_of(x):
    with torch.no_grad():  # <- here
        features = encoder(x)
    return features


for step in range(3):
    loss = nn.functional.cross_entropy(head(features_of(torch.randn(8, 4))), torch.randint(0, 2, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print([p.grad for p in encoder.parameters()])
