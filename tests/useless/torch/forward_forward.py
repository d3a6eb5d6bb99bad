# from: https://github.com/pytorch/examples/blob/main/mnist_forward_forward/main.py
# truth: healthy: each layer has a loss and an optimizer of its own, and passes on a detached result
# kind: healthy
import torch
from torch import nn


class FfLayer(nn.Linear):
    def __init__(self, i, o):
        super().__init__(i, o)
        self.opt = torch.optim.Adam(self.parameters(), lr=0.02)

    def forward(self, x):
        direction = x / (x.norm(2, 1, keepdim=True) + 1e-4)
        return torch.relu(direction @ self.weight.T + self.bias)

    def train_once(self, good, bad):
        g_good, g_bad = self(good).pow(2).mean(1), self(bad).pow(2).mean(1)
        loss = torch.log(1 + torch.exp(torch.cat([0.5 - g_good, g_bad - 0.5]))).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return self(good).detach(), self(bad).detach(), loss.item()


torch.manual_seed(1)
x, y = torch.rand(40, 8), torch.arange(40) % 2
x[:, 4:] += y[:, None]
onehot = torch.eye(2)
good = torch.cat([onehot[y], x], 1)
bad = torch.cat([onehot[1 - y], x], 1)
layers = [FfLayer(10, 16), FfLayer(16, 16)]
for epoch in range(3):
    h_good, h_bad = good, bad
    for layer in layers:
        h_good, h_bad, loss = layer.train_once(h_good, h_bad)
        print(epoch, loss)
