# from: https://github.com/pytorch/pytorch/issues/31829
# ask: explain --nonfinite
# exit: 1
# says: logsumexp
# says: [−-]Inf
# A random field whose first tag may follow none: all that is summed for it is -inf.
import torch
from torch import nn


class Field(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.moves = nn.Parameter(torch.randn(tags, tags) * 0.1)
        forbidden = torch.zeros(tags, tags)
        forbidden[:, 0] = float("-inf")
        self.register_buffer("forbidden", forbidden)

    def forward(self, scores, tags):
        moves = self.moves + self.forbidden
        total = scores[0]
        gold = scores[0, tags[0]]
        for t in range(1, len(scores)):
            total = torch.logsumexp(total[:, None] + moves, 0) + scores[t]  # <- here
            gold = gold + moves[tags[t - 1], tags[t]] + scores[t, tags[t]]
        return total.logsumexp(0) - gold


torch.manual_seed(0)
emit, field = nn.Linear(5, 4), Field(4)
optimizer = torch.optim.SGD([*emit.parameters(), *field.parameters()], lr=0.1)
for step in range(3):
    loss = field(emit(torch.randn(6, 5)), torch.tensor([0, 1, 2, 3, 2, 1]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
