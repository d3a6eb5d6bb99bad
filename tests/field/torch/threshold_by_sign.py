# from: https://github.com/Hiyuur/SR-TOD/issues/5
# exit: 1
# says: threshold
# never: cuts|no_grad
"""A mask of the difference to a reconstruction is cut at a learned threshold, by its sign."""

import torch
from torch import nn

torch.manual_seed(0)


class Enhance(nn.Module):
    def __init__(self):
        super().__init__()
        self.threshold = nn.Parameter(torch.tensor(0.3))
        self.weigh = nn.Conv2d(4, 4, 1)

    def forward(self, features, difference):
        mask = (torch.sign(difference - self.threshold) + 1) * 0.5  # <- here
        return features + features * mask * torch.sigmoid(self.weigh(features))


backbone, rebuild, enhance, head = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 3, 1), Enhance(), nn.Conv2d(4, 1, 1)
parts = nn.ModuleList([backbone, rebuild, enhance, head])
optimizer = torch.optim.AdamW(parts.parameters(), lr=1e-3)
for batch in range(3):
    image, target = torch.rand(2, 3, 8, 8), torch.rand(2, 1, 8, 8)
    features = torch.relu(backbone(image))
    restored = torch.sigmoid(rebuild(features))
    difference = (restored - image).abs().mean(dim=1, keepdim=True)
    loss = nn.functional.mse_loss(head(enhance(features, difference)), target)
    loss = loss + nn.functional.mse_loss(restored, image)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
