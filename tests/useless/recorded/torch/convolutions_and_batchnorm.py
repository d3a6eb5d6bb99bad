# from: own
# truth: healthy: what a normalisation takes away is the bias before it
# kind: healthy
import torch
from torch import nn

torch.manual_seed(0)
PROBED = nn.Sequential(
    nn.Conv2d(1, 6, 3),
    nn.BatchNorm2d(6),
    nn.ReLU(),
    nn.Conv2d(6, 8, 3),
    nn.BatchNorm2d(8),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(8, 3),
)
LABELS = torch.randint(3, (7,))
GIVEN = (torch.randn(7, 1, 12, 12),)
OPTIONS = {"of": lambda scores: nn.functional.cross_entropy(scores, LABELS)}
