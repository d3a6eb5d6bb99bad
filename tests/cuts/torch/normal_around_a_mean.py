# from: https://github.com/pytorch/pytorch/issues/4620
# ask: explain PROGRAM:vae x='randn(20,6)'
# kind: new_numbers
# name: encoder.weight
# missing: encoder.weight
"""The sample of a variational autoencoder is drawn around the mean, and is not the mean plus noise."""

import torch
from torch import nn


class Auto(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 2), nn.Linear(2, 6)

    def forward(self, x):
        mean = self.encoder(x)
        z = torch.normal(mean, 0.1)  # <- here
        return (self.decoder(z) - x).square().mean()


torch.manual_seed(0)
vae = Auto()
