# from: https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation
# truth: healthy: a step once in four small batches; in between the weights rightly stay as they are
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, 1.0, 3)
x = torch.randn(96, 6)
y = x[:, :3].argmax(1)
every = 4
for index, (inputs, targets) in enumerate(zip(x.split(8), y.split(8))):
    loss = nn.functional.cross_entropy(model(inputs), targets) / every
    loss.backward()
    if (index + 1) % every == 0:
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    print(index, loss.item() * every)
