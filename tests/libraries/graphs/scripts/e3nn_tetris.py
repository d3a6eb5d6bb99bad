# from: https://github.com/e3nn/e3nn/blob/main/examples/tetris.py
# says: all \d+ parameters got a gradient
import torch
from e3nn.o3 import FullyConnectedTensorProduct, Irreps, spherical_harmonics

torch.manual_seed(0)
pos = torch.tensor(
    [
        [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 1, 0)],
        [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 0, 3)],
        [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)],
    ],
    dtype=torch.float32,
)
labels = torch.tensor([0, 1, 2])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.irreps_sh = Irreps.spherical_harmonics(2)
        self.tp1 = FullyConnectedTensorProduct(self.irreps_sh, self.irreps_sh, "4x0e + 2x1o")
        self.tp2 = FullyConnectedTensorProduct("4x0e + 2x1o", self.irreps_sh, "3x0e")

    def forward(self, pos):
        edges = pos[:, :, None] - pos[:, None]
        sh = spherical_harmonics(self.irreps_sh, edges.flatten(1, 2), normalize=False, normalization="component")
        node = sh.mean(1, keepdim=True).expand_as(sh)
        x = self.tp1(node, sh)
        x = self.tp2(x, sh)
        return x.mean(1)


f = Net()
optim = torch.optim.Adam(f.parameters(), lr=1e-2)
for step in range(4):
    pred = f(pos)
    loss = torch.nn.functional.cross_entropy(pred, labels)
    optim.zero_grad()
    loss.backward()
    optim.step()
print(loss.item().hex())
