# from: https://github.com/microsoft/nni/issues/4521
# never: got no gradient|exactly 0|useless|changes next to nothing|changes no|changes none|is dropped|cuts|cancel|unused|not used
# Importance of weights, summed over batches: nothing is trained, and nothing should be.
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
scores = {name: torch.zeros_like(weight) for name, weight in model.named_parameters()}
for batch in range(4):
    x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
    loss = nn.functional.cross_entropy(model(x), y)
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            scores[name] = scores[name] + (weight * weight.grad).abs()
kept = torch.cat([each.flatten() for each in scores.values()]).topk(40).values.min()
print({name: int((each >= kept).sum()) for name, each in scores.items()})
