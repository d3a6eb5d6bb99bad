# from: https://github.com/huggingface/transformers/blob/main/src/transformers/models/bert/modeling_bert.py
# truth: healthy: the bias of the keys cancels in each softmax, as in every BERT, and does no harm
# kind: healthy
import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.dense, self.norm, self.dropout = nn.Linear(d, d), nn.LayerNorm(d), nn.Dropout(0.1)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (m(x).view(b, n, self.heads, -1).transpose(1, 2) for m in (self.query, self.key, self.value))
        p = self.dropout((q @ k.transpose(2, 3) / q.shape[-1] ** 0.5).softmax(-1))
        return self.norm(x + self.dropout(self.dense((p @ v).transpose(1, 2).reshape(b, n, d))))


torch.manual_seed(0)
embed, attend, classify = nn.Embedding(20, 12), SelfAttention(12, 3), nn.Linear(12, 2)
params = [*embed.parameters(), *attend.parameters(), *classify.parameters()]
optimizer = torch.optim.AdamW(params, lr=5e-3)
ids = torch.randint(0, 20, (32, 6))
label = (ids == 3).any(1).long()
for step in range(4):
    loss = nn.functional.cross_entropy(classify(attend(embed(ids))[:, 0]), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
