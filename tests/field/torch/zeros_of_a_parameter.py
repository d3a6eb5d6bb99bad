# from: own
# ask: explain
# exit: 1
# never: disconnected|cuts .* off|gives gradients
# The same in a function, of a second layer that the loss does not use.
import torch


def slopes(first, second, x):
    loss = first(x).square().sum()
    return torch.autograd.grad(loss, (first.weight, second), materialize_grads=True)


torch.manual_seed(0)
first, second = torch.nn.Linear(2, 1), torch.ones(2, requires_grad=True)
used, unused = slopes(first, second, torch.ones(3, 2))
