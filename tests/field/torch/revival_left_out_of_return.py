# from: https://github.com/oclivegriffin/crosscode/issues/3
# exit: 1
# says: 'loss' adds .*'aux'.* to .*'fit'
import torch
from torch import nn


class Trainer:
    def __init__(self, encoder, decoder):
        self.encoder, self.decoder = encoder, decoder
        self.optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
        self.log = []

    def losses(self, x):
        pre = self.encoder(x).relu()
        out = self.decoder(pre)
        fit = (out - x).square().sum(-1).mean()
        aux = (self.decoder(pre * (pre < 0.1)) - (x - out).detach()).square().sum(-1).mean()
        loss = fit + aux / 32  # <- here
        self.log.append({"loss": loss.item(), "aux": aux.item()})
        return fit

    def run(self, steps, accumulate=2):
        for _ in range(steps):
            for _ in range(accumulate):
                self.losses(torch.randn(8, 6)).div(accumulate).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()


torch.manual_seed(8)
Trainer(nn.Linear(6, 12), nn.Linear(12, 6)).run(4)
