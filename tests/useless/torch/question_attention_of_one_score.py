# from: https://github.com/DEEP-PolyU/KEQA_WSDM19/issues/2
# truth: the scores are [words * batch, 1] and the softmax is along the last dimension, so each weight is 1
# kind: cancels
# names: attn weights scores
import torch
import torch.nn.functional as F
from torch import nn


class QuestionEncoder(nn.Module):
    def __init__(self, words=50, width=12):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, bidirectional=True)
        self.attn = nn.Linear(3 * width, 1)
        self.out = nn.Linear(3 * width, 6)

    def forward(self, text):
        x = self.embed(text)
        outputs, _ = self.lstm(x)
        length, batch, _ = x.shape
        both = torch.cat((x.view(length * batch, -1), outputs.reshape(length * batch, -1)), 1)
        weights = F.softmax(self.attn(both), dim=-1).view(length, batch, 1)  # <- here
        return self.out((weights * both.view(length, batch, -1)).sum(0))


torch.manual_seed(0)
model = QuestionEncoder()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
text, relation = torch.randint(0, 50, (7, 16)), torch.randint(0, 6, (16,))
for epoch in range(4):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(text), relation)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
