# from: https://github.com/karpathy/nanoGPT/blob/master/model.py
# truth: healthy: angles are an outer product of places and rates; a causal mask; no bias anywhere, tied head
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn


def rotated(x):
    length, d = x.shape[-2:]
    angle = torch.outer(torch.arange(length).float(), 100.0 ** (-torch.arange(0, d, 2) / d))
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1).flatten(-2)


class Gpt(nn.Module):
    def __init__(self, words=13, d=16):
        super().__init__()
        self.wte, self.ln1, self.ln2 = nn.Embedding(words, d), nn.LayerNorm(d, bias=False), nn.LayerNorm(d, bias=False)
        self.qkv, self.proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.fc, self.back = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)
        self.head = nn.Linear(d, words, bias=False)
        self.head.weight = self.wte.weight
        nn.init.normal_(self.wte.weight, std=0.2)

    def forward(self, ids):
        x = self.wte(ids)
        q, k, v = self.qkv(self.ln1(x)).chunk(3, -1)
        x = x + self.proj(F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True))
        return self.head(x + self.back(F.gelu(self.fc(self.ln2(x)))))


torch.manual_seed(1337)
model = Gpt()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
ids = (torch.arange(10)[:, None] + 2 * torch.arange(8)) % 13
for step in range(4):
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(step, loss.item())
