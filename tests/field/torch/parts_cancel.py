# from: https://github.com/OpenMOSS/Llamascopium/issues/61
# ask: python
# What is missing from a reconstruction is added back, so the features change nothing: no derivative is 0, the sum is.
import torch
from torch import nn

import backprobe as bp


class Coder(nn.Module):
    def __init__(self, d=4, features=8):
        super().__init__()
        self.enc, self.dec = nn.Linear(d, features), nn.Linear(features, d, bias=False)

    def forward(self, x):
        features = self.enc(x).relu()
        return self.dec(features)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.coder, self.head = Coder(), nn.Linear(4, 3)

    def forward(self, x):
        made = self.coder(x)
        missed = x - made
        return self.head(made + missed)


torch.manual_seed(0)
model, x = Block(), torch.randn(2, 4)
plain = bp.explain(bp.probe(model, ["**", "**:*"], of=torch.sum)(x), "coder:features")
parts = bp.explain(bp.probe(model, ["**", "**:*"], of=torch.sum, partials=True)(x), "coder:features")
assert [one.kind for one in (*plain.findings, *parts.findings)] == ["added_up", "added_up"], (plain, parts)
assert "adds up to exactly 0" in plain.findings[0].headline and "cancels to exactly 0" in parts.findings[0].headline
assert "the parts cancel, or each is 0" in str(plain)
assert "is 0: " not in str(parts) and "derivative" not in plain.findings[0].headline


def f(z, x):
    made = torch.tanh(z)
    missed = x - made
    out = made + missed
    return out.sum()


rec = bp.probe(f, partials=True)(torch.randn(3), torch.randn(3))
found = bp.explain(rec, "z").findings
assert [one.headline for one in found] == ["what comes back to 'made' from 'missed', 'out' cancels to exactly 0"], found
assert (rec["missed"].contributions["made"] == -1).all() and (rec["out"].contributions["made"] == 1).all()


def g(z):
    u = z * 2
    kept = u.relu()
    steps = torch.round(u)
    return (kept + steps).sum()


found = bp.explain(bp.probe(g)(torch.tensor([-1.0, -2.0])), "z").findings
assert {one.kind for one in found} == {"zero_derivative"} and len(found) == 2, found
