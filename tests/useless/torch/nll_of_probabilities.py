# from: https://github.com/AnubhavGupta3377/Text-Classification-Models-Pytorch/issues/9
# truth: NLLLoss gets the probabilities of a softmax and not their logarithms, the loss is negative
# kind: not log-probabilities
import torch
from torch import nn


class BagOfWords(nn.Module):
    def __init__(self, words, classes):
        super().__init__()
        self.bag = nn.EmbeddingBag(words, 12)
        self.fc = nn.Linear(12, classes)
        self.softmax = nn.Softmax(dim=1)

    def forward(self, ids):
        return self.softmax(self.fc(self.bag(ids)))


torch.manual_seed(0)
ids = torch.randint(0, 40, (30, 6))
topic = ids[:, 0] // 10
model = BagOfWords(40, 4)
criterion = nn.NLLLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(4):
    optimizer.zero_grad()
    loss = criterion(model(ids), topic)  # <- here
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
