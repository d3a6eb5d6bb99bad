# from: https://github.com/NVIDIA-NeMo/Emerging-Optimizers/pull/189
# ask: explain --nonfinite
# exit: 1
# says: NaN is written into 'model\.tokens\.weight' at `optimizer\.step\(\)`? .*from finite gradients
# says: seen: the optimizer: Adam, lr 0\.01, eps 0
# A row of an embedding that is never used has the gradient 0, and Adam without an epsilon divides 0 by 0.
import torch
from torch import nn

torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(10, 4), nn.Linear(4, 10)

    def forward(self, ids):
        return nn.functional.cross_entropy(self.head(self.tokens(ids)), ids)


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, eps=0.0)
for step in range(5):
    ids = torch.randint(0, 5, (8,)) if step < 3 else torch.randint(0, 10, (8,))
    loss = model(ids)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()  # <- here
