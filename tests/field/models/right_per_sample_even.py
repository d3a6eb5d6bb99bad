# from: own
# ask: python
# says: dominant \[\] opposing
# says: sums True
# Samples drawn alike: none dominates, and their gradients sum to that of the batch.
import torch
from torch import nn

import backprobe as bp


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(6, 16), nn.LayerNorm(16), nn.Linear(16, 1)

    def forward(self, x, y):
        return nn.functional.smooth_l1_loss(self.head(self.norm(self.body(x)).relu()).squeeze(-1), y)


torch.manual_seed(0)
model, x, y = Regressor(), torch.randn(12, 6), torch.randn(12)
samples = bp.per_sample(model, "**")(x, y)
print(samples)
print("dominant", list(samples.dominant), "opposing", list(samples.opposing))
model(x, y).backward()
print("sums", all(torch.allclose(samples[name].sum(0), p.grad, atol=1e-6) for name, p in model.named_parameters()))
