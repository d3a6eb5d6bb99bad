# from: own
# never: got no gradient|useless|changes no|changes next to nothing|is dropped|cuts|cancel|not used|no optimizer
# A Fourier layer with complex weights: only the low modes are used, and the result is real again.
import torch
from torch import nn


class Spectral(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes, dtype=torch.cfloat) / width)
        self.local = nn.Conv1d(width, width, 1)

    def forward(self, x):
        spectrum = torch.fft.rfft(x)
        out = torch.zeros_like(spectrum)
        out[..., : self.modes] = torch.einsum("bim,iom->bom", spectrum[..., : self.modes], self.weight)
        return nn.functional.gelu(torch.fft.irfft(out, n=x.shape[-1]) + self.local(x))


torch.manual_seed(0)
model = nn.Sequential(nn.Conv1d(1, 4, 1), Spectral(4, 5), Spectral(4, 5), nn.Conv1d(4, 1, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(4):
    x = torch.randn(8, 1, 32).cumsum(-1)
    loss = (model(x) - x.roll(1, -1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
