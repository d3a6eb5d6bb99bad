# from: https://github.com/jingyaogong/minimind/pull/598
# exit: 1
# says: adapter
# says: \.data
# Low-rank adapters are added to the frozen weight in `.data` in every forward: the graph has none of it.
import torch
from torch import nn


class Adapted(nn.Module):
    def __init__(self, base, rank=2):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.register_buffer("pristine", base.weight.detach().clone())
        self.adapter_a = nn.Parameter(torch.randn(rank, base.in_features) * 0.1)
        self.adapter_b = nn.Parameter(torch.randn(base.out_features, rank) * 0.1)

    def forward(self, x):
        self.base.weight.data = self.pristine + self.adapter_b @ self.adapter_a  # <- here
        return self.base(x)


torch.manual_seed(0)
model = nn.Sequential(Adapted(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
for step in range(4):
    x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
