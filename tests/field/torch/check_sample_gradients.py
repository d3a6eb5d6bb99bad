# from: own
# ask: check PROGRAM:penalty weight=[[1.0,2.0],[3.0,-1.0]] bias=[0.5,0.25]
# exit: 0
# says: taken by itself, each call that was checked has the right derivative \(4 calls checked
# says: it differentiates itself
# never: other outputs|it raises
# Gradients of each sample: functional_call puts tensors of the call into a layer that the call does not have.
import torch
from torch.func import functional_call, grad, vmap

torch.manual_seed(0)
layer = torch.nn.Linear(2, 2)
x = torch.randn(3, 2)


def loss_of(weights, sample):
    return functional_call(layer, weights, (sample[None],)).square().sum()


per_sample = vmap(grad(loss_of), in_dims=(None, 0))


def penalty(weight, bias):
    gradients = per_sample({"weight": weight, "bias": bias}, x)
    norm = gradients["weight"].square().sum()
    return norm
