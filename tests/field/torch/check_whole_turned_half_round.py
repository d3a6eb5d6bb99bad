# from: https://github.com/kornia/kornia/issues/4237
# ask: check PROGRAM:first_angle w=-1.0 v='[0.0, 0.0, 0.0]'
# says: taken by itself, each call has the right derivative
# never: every derivative is right
import torch


def first_angle(w, v):
    squared = (v * v).sum()
    at_rest = squared <= 0
    s = torch.where(at_rest, torch.ones_like(squared), squared).sqrt()
    turned = 2 * torch.atan2(torch.sign(w) * s, torch.sign(w) * w)
    factor = torch.where(at_rest, torch.full_like(s, 2.0), turned / s)
    return (v * factor).sum()


if __name__ == "__main__":
    w = torch.tensor(-1.0, dtype=torch.double)
    v = torch.zeros(3, dtype=torch.double, requires_grad=True)
    first_angle(w, v).backward()
    h = torch.tensor([1e-4, 0.0, 0.0], dtype=torch.double)
    print("gradient", v.grad[0].item(), "difference", float(first_angle(w, v + h) - first_angle(w, v - h)) / 2e-4)
