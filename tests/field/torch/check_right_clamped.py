# from: own
# ask: check PROGRAM:loss_of x='[3.0, 0.5, -1.0]'
# never: so large
# never: mask
import torch


def loss_of(x):
    inside = x.clamp(0.0, 1.0)
    y = (inside * 2).square()
    return y.sum()


if __name__ == "__main__":
    x = torch.tensor([3.0, 0.5, -1.0], requires_grad=True)
    loss_of(x).backward()
    print(x.grad, "clamp is flat at 3 and at -1")
