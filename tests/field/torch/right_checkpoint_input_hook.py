# from: https://github.com/huggingface/transformers/pull/21598
# never: no_grad
# never: got no gradient
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Model(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.embed = nn.Embedding(10, width).requires_grad_(False)
        self.block = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
        self.head = nn.Linear(width, 10).requires_grad_(False)

    def forward(self, ids):
        h = checkpoint(self.block, self.embed(ids), use_reentrant=True)
        return self.head(h)


torch.manual_seed(0)
model = Model()
model.embed.register_forward_hook(lambda module, inputs, output: output.requires_grad_(True))
optimizer = torch.optim.SGD(model.block.parameters(), lr=0.1)
for step in range(3):
    ids = torch.randint(0, 10, (2, 4))
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(all(p.grad.abs().sum() > 0 for p in model.block.parameters()))
