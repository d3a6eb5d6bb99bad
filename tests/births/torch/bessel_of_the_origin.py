# from: https://github.com/jax-ml/jax/issues/12402
# ask: explain --nonfinite
# birth: forward
# name: waves
# operands: 0.0
# value: loss
"""Sources on a plane: the wave of each at the sensors, one of which sits on the source."""

import torch

torch.manual_seed(0)
amplitudes = torch.nn.Parameter(torch.ones(4))
distances = torch.tensor([[1.0, 2.0, 0.5, 3.0], [0.7, 0.0, 1.1, 2.2]])
optimizer = torch.optim.SGD([amplitudes], lr=0.1)
for _ in range(2):
    waves = torch.special.bessel_y0(distances)  # <- here
    loss = (waves * amplitudes).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
