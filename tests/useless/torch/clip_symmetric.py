# from: https://github.com/openai/CLIP/blob/main/clip/model.py
# truth: healthy: the outer product of pictures and texts is the score, with a learned temperature
# kind: healthy
import math

import torch
import torch.nn.functional as F
from torch import nn


class Clip(nn.Module):
    def __init__(self):
        super().__init__()
        self.visual, self.textual = nn.Linear(12, 6, bias=False), nn.EmbeddingBag(30, 6)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, pictures, texts):
        a, b = F.normalize(self.visual(pictures), dim=-1), F.normalize(self.textual(texts), dim=-1)
        return self.logit_scale.exp().clamp(max=100) * a @ b.t()


torch.manual_seed(0)
pictures, texts = torch.randn(10, 12), torch.randint(0, 30, (10, 4))
model = Clip()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
labels = torch.arange(10)
for step in range(4):
    per_picture = model(pictures, texts)
    loss = (F.cross_entropy(per_picture, labels) + F.cross_entropy(per_picture.t(), labels)) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), model.logit_scale.item())
