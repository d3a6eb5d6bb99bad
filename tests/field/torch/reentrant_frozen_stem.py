# from: https://github.com/huggingface/transformers/issues/21381
# exit: 1
# says: reentrant
# never: runs under torch\.no_grad
# never: under `?torch\.no_grad
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Encoder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.embed = nn.Embedding(12, width).requires_grad_(False)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.classifier = nn.Linear(width, 3)

    def forward(self, ids):
        h = self.embed(ids)
        for layer in self.layers:
            h = checkpoint(layer, h, use_reentrant=True)  # <- here
        return self.classifier(h.mean(1))


torch.manual_seed(0)
model = Encoder()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
for step in range(3):
    ids, labels = torch.randint(0, 12, (4, 5)), torch.randint(0, 3, (4,))
    loss = nn.functional.cross_entropy(model(ids), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print([name for name, p in model.named_parameters() if p.requires_grad and p.grad is None])
