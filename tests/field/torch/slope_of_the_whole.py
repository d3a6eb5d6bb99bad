# from: https://github.com/kornia/kornia/pull/4237
# ask: python
import torch

import backprobe as bp


def axis_angle(q):
    w, v = q[..., :1], q[..., 1:]
    squared = (v * v).sum(-1, keepdim=True)
    near = squared <= 0
    s = torch.where(near, torch.ones_like(squared), squared).sqrt()
    angle = 2 * torch.where(w < 0, torch.atan2(-s, -w), torch.atan2(s, w))
    factor = torch.where(near, torch.full_like(s, 2.0), angle / s)
    return v * factor


def loss_of(q):
    r = axis_angle(q)
    loss = (r - torch.tensor([0.2, -0.1, 0.3], dtype=q.dtype)).square().sum()
    return loss


report = bp.check(loss_of)(torch.tensor([-1.0, 0.0, 0.0, 0.0], dtype=torch.float64))
told = str(report)
assert "every derivative is right" not in told, told
assert not told.startswith("all ") or "of the whole" in told, told
