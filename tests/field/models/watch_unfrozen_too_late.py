# from: https://discuss.pytorch.org/t/best-practice-for-freezing-layers/58156
# ask: watch
# exit: 0
# says: step \d+: .*backbone
# says: no optimizer
# never: learning rate
# The optimizer was given what required a gradient before the backbone was unfrozen.
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.backbone(x))


torch.manual_seed(0)
model = Classifier()
model.backbone.requires_grad_(False)
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
for step in range(60):
    if step == 20:
        model.backbone.requires_grad_(True)
    x = torch.randn(32, 6)
    loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
