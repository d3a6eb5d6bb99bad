# from: https://github.com/ypwhs/captcha_break/issues/29
# ask: explain --nonfinite
# birth: forward
# name: loss
# operands: 3 frames for 4 letters
# value: loss
"""More letters than frames: there is no alignment."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 6)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(3, 1, 5)
letters, frames, lengths = torch.tensor([[1, 2, 3, 4]]), torch.tensor([3]), torch.tensor([4])
for _ in range(2):
    scores = model(x).log_softmax(-1)
    loss = nn.functional.ctc_loss(scores, letters, frames, lengths)  # <- here
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
