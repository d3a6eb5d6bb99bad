# from: https://theneuralbase.com/sft/learn/beginner/loss-spike-during-training/
# ask: python
# says: dominant \[5\]
# says: one sample has 8\d % of all gradient norm: 5
# One sample of the batch is in other units.
import torch
from torch import nn

import backprobe as bp


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 16), nn.Linear(16, 1)

    def forward(self, x, y):
        return nn.functional.mse_loss(self.head(self.body(x).tanh()).squeeze(-1), y)


torch.manual_seed(0)
x, y = torch.randn(8, 6), torch.randn(8)
y[5] *= 100
samples = bp.per_sample(Regressor(), "**")(x, y)
print(samples)
print("dominant", [int(one) for one in samples.dominant])
