# from: https://github.com/pytorch/vision/blob/main/references/segmentation/train.py
# truth: healthy: void pixels (255) are ignored, one picture is all void; an auxiliary head has half the weight
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
backbone = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=True))
deep = nn.Sequential(nn.Conv2d(8, 8, 3, padding=2, dilation=2), nn.ReLU(inplace=True))
head, aux_head = nn.Conv2d(8, 3, 1), nn.Conv2d(8, 3, 1)
params = [p for m in (backbone, deep, head, aux_head) for p in m.parameters()]
optimizer = torch.optim.SGD(params, lr=0.1, momentum=0.9, weight_decay=1e-4)
truth = torch.randint(0, 3, (4, 6, 6))
picture = F.one_hot(truth, 3).permute(0, 3, 1, 2) + 0.3 * torch.randn(4, 3, 6, 6)
truth[torch.rand(4, 6, 6) < 0.2] = 255
truth[2] = 255
for step in range(4):
    low = backbone(picture)
    losses = {"out": head(deep(low)), "aux": aux_head(low)}
    losses = {name: F.cross_entropy(x, truth, ignore_index=255) for name, x in losses.items()}
    loss = losses["out"] + 0.5 * losses["aux"]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
