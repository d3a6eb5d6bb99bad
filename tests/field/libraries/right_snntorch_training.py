# from: https://github.com/jeshraghian/snntorch/issues/411
# never: got no gradient
import snntorch as snn
import torch
from snntorch import surrogate
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 12), nn.Linear(12, 2)
        slope = surrogate.fast_sigmoid(slope=25)
        self.lif1 = snn.Leaky(beta=0.9, spike_grad=slope)
        self.lif2 = snn.Leaky(beta=0.9, spike_grad=slope)

    def forward(self, x, steps=4):
        mem1, mem2, seen = self.lif1.init_leaky(), self.lif2.init_leaky(), []
        for _ in range(steps):
            spk1, mem1 = self.lif1(self.fc1(x), mem1)
            _, mem2 = self.lif2(self.fc2(spk1), mem2)
            seen.append(mem2)
        return torch.stack(seen)


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(3):
    membrane = net(torch.rand(8, 6) * 4)
    loss = sum(nn.functional.cross_entropy(m, torch.arange(8) % 2) for m in membrane)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print([float(p.grad.abs().sum()) for p in net.parameters()])
