# from: https://github.com/pykeen/pykeen/pull/734
# never: got no gradient|exactly 0|useless|changes no|changes next to nothing|is dropped|cuts|not used|no optimizer
# Softmax over the edges of each node: the largest score of a node is subtracted as a constant.
import torch
from torch import nn


def softmax_by(scores, index, size):
    top = scores.new_full((size,), float("-inf")).scatter_reduce(0, index, scores.detach(), "amax")
    exp = (scores - top[index]).exp()
    return exp / scores.new_zeros(size).index_add(0, index, exp).clamp(min=1e-16)[index]


class Attention(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.lin = nn.Linear(inputs, outputs, bias=False)
        self.from_source, self.to_target = nn.Parameter(torch.randn(outputs)), nn.Parameter(torch.randn(outputs))

    def forward(self, x, source, target):
        h = self.lin(x)
        scores = (h @ self.from_source)[source] + (h @ self.to_target)[target]
        weights = softmax_by(nn.functional.leaky_relu(scores, 0.2), target, len(x))
        return torch.zeros_like(h).index_add_(0, target, weights[:, None] * h[source])


torch.manual_seed(0)
source, target = torch.randint(0, 10, (2, 60))
x, y = torch.randn(10, 5), torch.randint(0, 3, (10,))
first, second = Attention(5, 8), Attention(8, 3)
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=5e-3, weight_decay=5e-4)
for epoch in range(4):
    loss = nn.functional.cross_entropy(second(nn.functional.elu(first(x, source, target)), source, target), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
