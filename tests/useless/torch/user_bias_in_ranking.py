# from: own
# truth: the bias of the user is in both scores of a pair and cancels in their difference
# kind: cancels
# names: user_bias
import torch
import torch.nn.functional as F
from torch import nn


class Factors(nn.Module):
    def __init__(self, users, items, d=6):
        super().__init__()
        self.user, self.item = nn.Embedding(users, d), nn.Embedding(items, d)
        self.user_bias, self.item_bias = nn.Embedding(users, 1), nn.Embedding(items, 1)
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, u, i):
        product = (self.user(u) * self.item(i)).sum(-1)
        return product + self.user_bias(u).squeeze(-1) + self.item_bias(i).squeeze(-1)


torch.manual_seed(0)
model = Factors(12, 20)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(4):
    users = torch.randint(0, 12, (64,))
    liked, other = users + torch.randint(0, 4, (64,)), torch.randint(0, 20, (64,))
    margin = model(users, liked) - model(users, other)  # <- here
    loss = -F.logsigmoid(margin).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
