# from: https://docs.pytorch.org/tutorials/intermediate/char_rnn_classification_tutorial.html
# truth: healthy: one name at a time, a batch of one; the log-softmax runs along the languages
# kind: healthy
import torch
import torch.nn.functional as F
from torch import nn


class CharRnn(nn.Module):
    def __init__(self, letters, hidden, languages):
        super().__init__()
        self.rnn, self.h2o = nn.RNN(letters, hidden), nn.Linear(hidden, languages)

    def forward(self, line):
        _, hidden = self.rnn(line)
        return F.log_softmax(self.h2o(hidden[0]), dim=1)


def as_tensor(word):
    return F.one_hot(torch.tensor([ord(c) - 97 for c in word]), 26).float().unsqueeze(1)


torch.manual_seed(2)
lines = [("mori", 0), ("sato", 0), ("kowalski", 1), ("nowak", 1)]
rnn = CharRnn(26, 16, 2)
optimizer = torch.optim.SGD(rnn.parameters(), lr=0.1)
for epoch in range(2):
    for word, language in lines:
        loss = F.nll_loss(rnn(as_tensor(word)), torch.tensor([language]))
        rnn.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(rnn.parameters(), 3)
        optimizer.step()
        print(epoch, word, loss.item())
