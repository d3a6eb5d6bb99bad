# from: own
# ask: python
# One block around a loop of a trainer: what gets gradients at each step and is in no optimizer is said, and what is
# stepped by hand is not.
import torch
from torch import nn

import backprobe as bp


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(6, 3), nn.Linear(3, 6)

    def training_step(self, batch):
        return nn.functional.mse_loss(self.decoder(self.encoder(batch).tanh()), batch)


def fit(module, by_hand):
    optimizer = torch.optim.Adam(module.decoder.parameters(), lr=1e-2)

    def closure():
        loss = module.training_step(torch.randn(16, 6))
        module.zero_grad()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
        if by_hand:
            with torch.no_grad():
                for parameter in module.encoder.parameters():
                    parameter -= 0.01 * parameter.grad


torch.manual_seed(0)
with bp.probe() as rec:
    fit(Module(), by_hand=False)
report = bp.explain(rec)
assert [one.kind for one in report.findings] == ["not_held"], str(report)
assert "Module.encoder.weight, Module.encoder.bias" in str(report), str(report)
with bp.probe() as rec:
    fit(Module(), by_hand=True)
report = bp.explain(rec)
assert report.ok, str(report)
