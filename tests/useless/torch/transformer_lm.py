# from: https://docs.pytorch.org/tutorials/beginner/transformer_tutorial.html
# truth: healthy: a causal mask hides later words, positions come of a wanted outer product, dropout is on
# kind: healthy
import math

import torch
from torch import nn


class Lm(nn.Module):
    def __init__(self, words=12, d=16, length=10):
        super().__init__()
        self.d, self.embedding = d, nn.Embedding(words, d)
        layer = nn.TransformerEncoderLayer(d, nhead=2, dim_feedforward=32, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.linear = nn.Linear(d, words)
        rate = torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        angle = torch.arange(length).unsqueeze(1) * rate
        self.register_buffer("pe", torch.stack([angle.sin(), angle.cos()], -1).view(length, d))

    def forward(self, ids):
        x = self.embedding(ids) * math.sqrt(self.d) + self.pe[: ids.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.linear(self.encoder(x, mask))


torch.manual_seed(0)
model = Lm()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
ids = (torch.arange(8)[:, None] * 3 + torch.arange(9)) % 12
for epoch in range(4):
    loss = nn.functional.cross_entropy(model(ids[:, :-1]).reshape(-1, 12), ids[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    print(epoch, loss.item())
