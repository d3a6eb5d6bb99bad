# from: https://github.com/spro/practical-pytorch/issues/9
# exit: 1
# says: network
# says: optimizer
# never: detach|no_grad|copies the values
"""Names are sorted by language; the network is made anew after the optimizer was given the first one."""

import torch
from torch import nn

torch.manual_seed(0)


class Reader(nn.Module):
    def __init__(self, letters, hidden, languages):
        super().__init__()
        self.hidden = hidden
        self.to_hidden = nn.Linear(letters + hidden, hidden)
        self.to_language = nn.Linear(letters + hidden, languages)

    def forward(self, letter, state):
        both = torch.cat([letter, state], dim=1)
        return torch.log_softmax(self.to_language(both), dim=1), torch.tanh(self.to_hidden(both))


network = Reader(5, 8, 3)
optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
criterion = nn.NLLLoss()


def step(language, name):
    state = torch.zeros(1, network.hidden)
    optimizer.zero_grad()
    for letter in name:
        output, state = network(letter.unsqueeze(0), state)
    loss = criterion(output, language)
    loss.backward()
    optimizer.step()
    return loss.item()


names = [(torch.tensor([k % 3]), torch.eye(5)[torch.randint(0, 5, (4,))]) for k in range(6)]
network = Reader(5, 8, 3)  # <- here
for turn in range(4):
    total = sum(step(*each) for each in names)
    print(turn, total)
