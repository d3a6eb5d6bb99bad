# from: https://github.com/changjonathanc/minLoRA/issues/2
# never: got no gradient|useless|changes no|changes next to nothing|is dropped|cuts|cancel|not used|no optimizer
# Adapters as parametrizations of frozen weights; the optimizer has only theirs.
import torch
from torch import nn
from torch.nn.utils import parametrize


class LowRank(nn.Module):
    def __init__(self, out, into, rank=2):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(rank, into) * 0.1), nn.Parameter(torch.zeros(out, rank))

    def forward(self, weight):
        return weight + self.b @ self.a


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).requires_grad_(False)
for layer in model:
    if isinstance(layer, nn.Linear):
        parametrize.register_parametrization(layer, "weight", LowRank(*layer.weight.shape))
adapters = [p for name, p in model.named_parameters() if name.endswith((".a", ".b"))]
optimizer = torch.optim.AdamW(adapters, lr=1e-2)
for step in range(6):
    x, y = torch.randn(32, 6), torch.randint(0, 3, (32,))
    with parametrize.cached():
        loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
