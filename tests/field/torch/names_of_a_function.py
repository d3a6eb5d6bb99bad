# from: own
# ask: python
import torch

import backprobe as bp

ran = []


def loss_of(x, w):
    ran.append(1)
    u = x * w
    v = torch.tanh(u)
    return v.sum()


names = bp.names(loss_of)
assert not ran
for name in ("x", "w", "u", "v"):
    assert any(each.lstrip(":") == name for each in names), (name, list(names))
assert len(names) == len(list(names)) and names[0] in list(names)
one = [each.lstrip(":") for each in bp.names(loss_of, "u")]
assert "u" in one and "v" not in one, one
assert not ran
