# from: https://github.com/kornia/kornia/issues/4237
# ask: check PROGRAM:loss_of x=0.0
# says: taken by itself, each call has the right derivative
# never: every derivative is right
import torch


def odd(x):
    small = x == 0
    safe = torch.where(small, torch.ones_like(x), x)
    return torch.where(small, -x, torch.sin(2 * safe) / 2)


def loss_of(x):
    y = odd(x)
    return y * 3


if __name__ == "__main__":
    x = torch.tensor(0.0, dtype=torch.double, requires_grad=True)
    loss_of(x).backward()
    h = 1e-3
    print("gradient", x.grad.item(), "difference", float(loss_of(x + h) - loss_of(x - h)) / (2 * h))
