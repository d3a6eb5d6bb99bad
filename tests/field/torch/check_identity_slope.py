# from: https://github.com/kornia/kornia/issues/4237
# ask: check PROGRAM:loss_of q=[-1.0,0.0,0.0,0.0]
# exit: 0
# says: loss_of: taken by itself, each call has the right derivative \(18 calls checked
# never: every derivative|is right\b|not judged
# The factor at the identity is right for w = 1 alone: at this input the gradient of the whole has the wrong sign, and
# each call in it has the right one.
import torch


def axis_angle(q):
    w, v = q[..., :1], q[..., 1:]
    squared = (v * v).sum(-1, keepdim=True)
    small = squared <= 0
    safe = torch.where(small, torch.ones_like(squared), squared)
    s = safe.sqrt()
    angle = 2.0 * torch.where(w < 0, torch.atan2(-s, -w), torch.atan2(s, w))
    factor = torch.where(small, torch.full_like(s, 2.0), angle / s)
    return v * factor


def loss_of(q):
    r = axis_angle(q)
    target = torch.tensor([0.1, -0.2, 0.3], dtype=q.dtype)
    loss = (r - target).square().sum()
    return loss
