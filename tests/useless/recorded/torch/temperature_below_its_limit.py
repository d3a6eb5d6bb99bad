# from: own
# truth: the temperature begins below the limit of clamp, where that is flat
# kind: zero
import torch
from torch import nn


class Contrast(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = nn.Linear(12, 8), nn.Linear(9, 8)
        self.temperature = nn.Parameter(torch.tensor(-5.0))

    def forward(self, images, texts):
        scale = torch.clamp(self.temperature, min=0.0, max=4.6).exp()  # <- here
        one = nn.functional.normalize(self.image(images), dim=-1)
        other = nn.functional.normalize(self.text(texts), dim=-1)
        return nn.functional.cross_entropy(scale * one @ other.T, torch.arange(len(images)))


torch.manual_seed(0)
PROBED = Contrast()
GIVEN = torch.randn(10, 12), torch.randn(10, 9)
