# from: own
# ask: check PROGRAM:loss_of x=0.0
# says: right
# never: wrong|sign
import torch


def sinc(x):
    small = x.abs() < 1e-6
    safe = torch.where(small, torch.ones_like(x), x)
    return torch.where(small, 1 - x.square() / 6, torch.sin(safe) / safe)


def loss_of(x):
    y = sinc(x) + 2 * x
    return y * 3


if __name__ == "__main__":
    x = torch.tensor(0.0, dtype=torch.double, requires_grad=True)
    loss_of(x).backward()
    print("gradient", x.grad.item(), "difference", float(loss_of(x + 1e-3) - loss_of(x - 1e-3)) / 2e-3)
