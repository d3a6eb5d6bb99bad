# from: own
# truth: CrossEntropyLoss takes logits, and the network ends in Softmax
# kind: distribution twice
import torch
from torch import nn

torch.manual_seed(0)
network = nn.Sequential(nn.Flatten(), nn.Linear(49, 24), nn.ReLU(), nn.Linear(24, 10), nn.Softmax(dim=1))
criterion = nn.CrossEntropyLoss()


def classify(images, labels):
    scores = network(images)
    return criterion(scores, labels)  # <- here


PROBED = classify
GIVEN = torch.randn(16, 1, 7, 7), torch.randint(10, (16,))
