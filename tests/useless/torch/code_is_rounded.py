# from: https://discuss.pytorch.org/t/torch-round-gradient/28628
# truth: round() has slope 0 everywhere, so nothing in front of it is ever trained
# kind: zero
# names: encoder
import torch
from torch import nn


class Codec(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))
        self.decoder = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 16))

    def forward(self, x):
        code = torch.round(self.encoder(x) * 4)  # <- here
        return self.decoder(code / 4)


torch.manual_seed(0)
signals = torch.sin(torch.linspace(0, 6, 16) * torch.rand(32, 1) * 3)
codec = Codec()
optimizer = torch.optim.Adam(codec.parameters(), lr=0.01)
for epoch in range(4):
    loss = nn.functional.mse_loss(codec(signals), signals)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}")
