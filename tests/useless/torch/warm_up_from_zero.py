# from: https://huggingface.co/docs/transformers/main_classes/optimizer_schedules
# truth: healthy: the learning rate is exactly 0 in the first step and 0 again after the last one
# kind: healthy
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(12, 8), nn.Flatten(), nn.Linear(32, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
warm, total = 3, 9
scheduler = LambdaLR(optimizer, lambda s: s / warm if s < warm else max(0.0, (total - s) / (total - warm)))
ids = torch.randint(0, 12, (48, 4))
label = (ids[:, 0] < 6).long()
for step in range(total):
    loss = nn.functional.cross_entropy(model(ids), label)
    loss.backward()
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    print(step, loss.item(), scheduler.get_last_lr()[0])
