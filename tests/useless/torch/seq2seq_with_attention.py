# from: https://docs.pytorch.org/tutorials/intermediate/seq2seq_translation_tutorial.html
# truth: healthy: additive attention has scores of one column, its softmax runs along the words and drops only va.bias
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn


class Bahdanau(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.wa, self.ua, self.va = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, 1)

    def forward(self, query, keys):
        scores = self.va(torch.tanh(self.wa(query) + self.ua(keys))).squeeze(2).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys)


class Translate(nn.Module):
    def __init__(self, words=9, d=10):
        super().__init__()
        self.source, self.target = nn.Embedding(words, d), nn.Embedding(words, d)
        self.encoder, self.decoder = nn.GRU(d, d, batch_first=True), nn.GRU(2 * d, d, batch_first=True)
        self.attention, self.out = Bahdanau(d), nn.Linear(d, words)

    def forward(self, source, target):
        keys, hidden = self.encoder(self.source(source))
        token, outputs = torch.zeros(len(source), 1, dtype=torch.long), []
        for i in range(target.shape[1]):
            context = self.attention(hidden.permute(1, 0, 2), keys)
            step, hidden = self.decoder(torch.cat([self.target(token), context], 2), hidden)
            outputs.append(self.out(step))
            token = target[:, i : i + 1]
        return F.log_softmax(torch.cat(outputs, 1), dim=-1)


torch.manual_seed(0)
source = torch.randint(1, 9, (16, 5))
target = source.flip(1)
model = Translate()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
criterion = nn.NLLLoss()
for epoch in range(3):
    loss = criterion(model(source, target).view(-1, 9), target.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
