# from: https://github.com/DEEP-PolyU/KEQA_WSDM19/issues/2
# truth: the scores have one column and the softmax runs along it, so that each attention weight is 1
# kind: cancels
# names: attn
import torch
import torch.nn.functional as F
from torch import nn


class RelationTagger(nn.Module):
    def __init__(self, words=30, d=8, relations=5):
        super().__init__()
        self.embed = nn.Embedding(words, d)
        self.lstm = nn.LSTM(d, d, bidirectional=True)
        self.attn = nn.Sequential(nn.Linear(3 * d, d), nn.Tanh(), nn.Linear(d, 1))
        self.out = nn.Linear(2 * d, relations)

    def forward(self, ids):
        length, batch = ids.shape
        x = self.embed(ids)
        states, _ = self.lstm(x)
        flat = torch.cat([x, states], 2).view(length * batch, -1)
        weights = F.softmax(self.attn(flat), dim=1).view(length, batch, 1)  # <- here
        return self.out((weights * states).mean(0))


torch.manual_seed(0)
model = RelationTagger()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
ids, relation = torch.randint(0, 30, (7, 10)), torch.randint(0, 5, (10,))
for step in range(3):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(ids), relation)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
