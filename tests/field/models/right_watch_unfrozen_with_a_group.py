# from: https://discuss.pytorch.org/t/best-practice-for-freezing-layers/58156
# ask: watch
# exit: 0
# says: watched Classifier for 60 steps
# never: step \d+:
# The same as watch_unfrozen_too_late.py, and the optimizer is given the backbone too.
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
        optimizer.add_param_group({"params": list(model.backbone.parameters()), "lr": 1e-3})
    x = torch.randn(32, 6)
    loss = nn.functional.cross_entropy(model(x), x[:, :3].argmax(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
