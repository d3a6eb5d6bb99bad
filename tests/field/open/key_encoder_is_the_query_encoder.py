# from: own
# exit: 1
# says: query|encoder
# says: requires_grad
# The encoder of keys is no copy: freezing it freezes the one that is trained.
import torch
from torch import nn
from torch.nn.functional import cross_entropy, normalize


class Moco(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.query, self.key = encoder, encoder
        self.predictor = nn.Linear(8, 8)
        for parameter in self.key.parameters():
            parameter.requires_grad = False  # <- here
        self.register_buffer("queue", normalize(torch.randn(8, 64), dim=0))
        self.at = 0

    @torch.no_grad()
    def keys(self, images):
        for slow, fast in zip(self.key.parameters(), self.query.parameters()):
            slow.data = slow.data * 0.99 + fast.data * 0.01
        return normalize(self.key(images), dim=1)

    def forward(self, one, other):
        q = normalize(self.predictor(self.query(one)), dim=1)
        k = self.keys(other)
        scores = torch.cat([(q * k).sum(1, keepdim=True), q @ self.queue.clone()], 1) / 0.2
        with torch.no_grad():
            self.queue[:, self.at : self.at + len(k)] = k.T
            self.at = (self.at + len(k)) % 64
        return cross_entropy(scores, torch.zeros(len(q), dtype=torch.long))


torch.manual_seed(0)
moco = Moco(nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8)))
optimizer = torch.optim.SGD(moco.parameters(), lr=0.03, momentum=0.9)
for step in range(4):
    image = torch.randn(16, 12)
    loss = moco(image + 0.1 * torch.randn(16, 12), image + 0.1 * torch.randn(16, 12))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
