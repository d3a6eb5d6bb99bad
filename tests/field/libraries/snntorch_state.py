# from: own
# ask: python
import snntorch
import torch

import backprobe as bp


class Spiking(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.leaky = torch.nn.Linear(3, 4), snntorch.Leaky(beta=0.9)

    def forward(self, x):
        spikes, state = self.leaky(self.lin(x), self.leaky.init_leaky())
        return state.sum()


def cell(x):
    spikes, state = snntorch.Leaky(beta=0.9)(x, torch.zeros(1))
    return state.sum()


bp.check(cell)(torch.tensor([0.3]))
bp.check(Spiking())(torch.randn(2, 3))
