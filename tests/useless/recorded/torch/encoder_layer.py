# from: own
# truth: healthy: the bias of the keys cancels in every softmax, as it does everywhere
# kind: healthy
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.out = nn.Linear(16, 40)

    def forward(self, text):
        scores = self.out(self.layer(self.embed(text)))
        return nn.functional.cross_entropy(scores[:, :-1].flatten(0, 1), text[:, 1:].flatten())


torch.manual_seed(0)
PROBED = Encoder()
GIVEN = (torch.randint(40, (6, 9)),)
