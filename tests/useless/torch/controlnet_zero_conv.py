# from: https://github.com/lllyasviel/ControlNet/blob/main/docs/faq.md
# truth: healthy: behind a zero convolution the control branch has no gradient in the first step, and then has one
# kind: healthy
import torch
from torch import nn


def zero_conv(channels):
    conv = nn.Conv2d(channels, channels, 1)
    nn.init.zeros_(conv.weight)
    nn.init.zeros_(conv.bias)
    return conv


class Controlled(nn.Module):
    def __init__(self, c=4):
        super().__init__()
        self.locked = nn.Conv2d(1, c, 3, padding=1).requires_grad_(False)
        self.copy = nn.Conv2d(1, c, 3, padding=1)
        self.copy.load_state_dict(self.locked.state_dict())
        self.before, self.after = nn.Conv2d(1, 1, 1), zero_conv(c)
        self.out = nn.Conv2d(c, 1, 1).requires_grad_(False)

    def forward(self, x, hint):
        h = self.locked(x) + self.after(torch.relu(self.copy(x + self.before(hint))))
        return self.out(torch.tanh(h))


torch.manual_seed(1)
net = Controlled()
optimizer = torch.optim.AdamW((p for p in net.parameters() if p.requires_grad), lr=0.01)
x = torch.rand(6, 1, 8, 8)
hint = (x > 0.7).float()
for step in range(4):
    loss = nn.functional.mse_loss(net(x, hint), hint)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
