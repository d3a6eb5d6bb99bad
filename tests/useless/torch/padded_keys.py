# from: own
# truth: healthy: padded words get an attention of 0 and are left out of the mean, most words are real
# kind: healthy
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, words=20, d=12):
        super().__init__()
        self.embed = nn.Embedding(words, d, padding_idx=0)
        self.attend = nn.MultiheadAttention(d, 3, batch_first=True)
        self.norm, self.out = nn.LayerNorm(d), nn.Linear(d, 2)

    def forward(self, ids):
        pad = ids == 0
        x = self.embed(ids)
        y, _ = self.attend(x, x, x, key_padding_mask=pad, need_weights=False)
        y = self.norm(x + y) * (~pad)[..., None]
        return self.out(y.sum(1) / (~pad).sum(1, keepdim=True))


torch.manual_seed(4)
lengths = torch.randint(3, 9, (24, 1))
ids = torch.randint(1, 20, (24, 9)) * (torch.arange(9) < lengths)
label = (ids == 7).any(1).long()
model = Encoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(4):
    loss = nn.functional.cross_entropy(model(ids), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
