# from: https://github.com/rixwew/pytorch-fm/blob/master/torchfm/model/fm.py
# truth: healthy: the square of the sum minus the sum of squares does not cancel, it leaves the cross terms
# kind: healthy
import torch
from torch import nn


class Fm(nn.Module):
    def __init__(self, fields, d=4):
        super().__init__()
        self.register_buffer("offsets", torch.tensor([0, *fields[:-1]]).cumsum(0))
        self.embedding, self.linear = nn.Embedding(sum(fields), d), nn.Embedding(sum(fields), 1)
        self.bias = nn.Parameter(torch.zeros(1))
        nn.init.xavier_uniform_(self.embedding.weight)

    def forward(self, x):
        x = x + self.offsets
        e = self.embedding(x)
        crossed = (e.sum(1) ** 2 - (e**2).sum(1)).sum(1, keepdim=True)
        return torch.sigmoid((self.bias + self.linear(x).sum(1) + 0.5 * crossed).squeeze(1))


torch.manual_seed(0)
fields = [6, 9, 4]
x = torch.stack([torch.randint(0, n, (100,)) for n in fields], 1)
y = ((x[:, 0] + x[:, 1]) % 2).float()
model = Fm(fields)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=1e-6)
for epoch in range(4):
    loss = nn.BCELoss()(model(x), y)
    model.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
