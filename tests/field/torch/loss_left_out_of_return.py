# from: https://github.com/oclivegriffin/crosscode/issues/3
# ask: explain
# says: all 4 parameters got a gradient
# says: revival
# never: would have none
import torch
from torch import nn


class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(5, 12), nn.Linear(12, 5)

    def forward(self, x):
        codes = self.encoder(x).relu()
        return codes, self.decoder(codes)


class Trainer:
    def __init__(self, coder):
        self.coder, self.seen = coder, []
        self.optimizer = torch.optim.Adam(coder.parameters())

    def losses(self, x):
        codes, out = self.coder(x)
        fit = (out - x).square().mean()
        revival = (self.coder.decoder(codes * 0.5) - x).square().mean()  # <- here
        total = fit + revival / 32  # <- here
        self.seen.append({"total": total.item(), "revival": revival.item()})
        return fit

    def run(self):
        for _ in range(3):
            for _ in range(2):
                self.losses(torch.randn(8, 5)).div(2).backward()
            self.optimizer.step()
            self.optimizer.zero_grad()


torch.manual_seed(0)
Trainer(Coder()).run()
