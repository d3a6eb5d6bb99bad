# from: https://github.com/learnables/learn2learn/issues/331
# ask: check PROGRAM:norm_of weight=randn(2,3) bias=randn(2)
# never: other outputs
# never: something else each time
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

torch.manual_seed(0)
layer = nn.Linear(3, 2)
batch = torch.randn(4, 3)


def loss_of(params, x):
    return functional_call(layer, params, (x[None],)).tanh().square().sum()


per_sample = vmap(grad(loss_of), in_dims=(None, 0))


def norm_of(weight, bias):
    slopes = per_sample({"weight": weight, "bias": bias}, batch.to(weight.dtype))
    total = slopes["weight"].square().sum() + slopes["bias"].square().sum()
    return total


if __name__ == "__main__":
    given = [torch.randn(*shape, dtype=torch.double, requires_grad=True) for shape in [(2, 3), (2,)]]
    print(torch.autograd.gradcheck(norm_of, given))
