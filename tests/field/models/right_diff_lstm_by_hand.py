# from: https://discuss.pytorch.org/t/pretrained-keras-lstm-weights-to-pytorch-lstm/110741
# ask: python
# says: ok True
# never: differs? first
# An LSTM written out step by step computes what nn.LSTM does.
import torch
from torch import nn

import backprobe as bp


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 1)

    def forward(self, x):
        hidden, _ = self.lstm(x)
        return self.head(hidden[:, -1]).square().mean()


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight_ih_l0, self.weight_hh_l0 = nn.Parameter(torch.empty(16, 3)), nn.Parameter(torch.empty(16, 4))
        self.bias_ih_l0, self.bias_hh_l0 = nn.Parameter(torch.empty(16)), nn.Parameter(torch.empty(16))

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], 4)
        outputs = []
        for t in range(x.shape[1]):
            gates = x[:, t] @ self.weight_ih_l0.T + self.bias_ih_l0 + h @ self.weight_hh_l0.T + self.bias_hh_l0
            i, f, g, o = gates.chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            outputs.append(h)
        return torch.stack(outputs, 1), (h[None], c[None])


torch.manual_seed(0)
reference, port = Model(), Model()
port.lstm = Cell()
port.load_state_dict(reference.state_dict())
x = torch.randn(2, 5, 3)
report = bp.diff(bp.probe(reference)(x), bp.probe(port)(x))
print(report)
print("ok", report.ok)
