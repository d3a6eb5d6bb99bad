# from: https://github.com/modelscope/ms-swift/issues/4570
# truth: no sampled answer ever has the closing token, all rewards of a group are equal and each advantage is 0
# kind: every zero
# names: advantage
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
VOCAB, END, LENGTH, GROUP = 10, 10, 6, 4


class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCAB, 12)
        self.cell = nn.GRUCell(12, 12)
        self.out = nn.Linear(12, VOCAB)

    def forward(self, token, state):
        state = self.cell(self.table(token), state)
        return self.out(state), state


def reward_of(tokens):
    # END is no token of the vocabulary, so that nobody ever earns the second part
    return 0.5 * torch.ones(len(tokens)) + 0.5 * (tokens == END).any(1).float()


writer = Writer()
optimizer = torch.optim.Adam(writer.parameters(), lr=1e-3)
for step in range(3):
    token, state, logps, tokens = torch.randint(0, VOCAB, (2,)).repeat_interleave(GROUP), None, [], []
    for _ in range(LENGTH):
        logits, state = writer(token, state)
        choice = Categorical(logits=logits)
        token = choice.sample()
        logps.append(choice.log_prob(token))
        tokens.append(token)
    reward = reward_of(torch.stack(tokens, 1)).view(-1, GROUP)
    advantage = (reward - reward.mean(1, keepdim=True)) / (reward.std(1, keepdim=True) + 1e-6)
    loss = -(torch.stack(logps, 1).sum(1) * advantage.view(-1)).mean()  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, reward.mean().item(), loss.item())
