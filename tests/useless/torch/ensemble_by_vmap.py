# from: https://docs.pytorch.org/tutorials/intermediate/ensembling.html
# truth: healthy: stacked weights of four networks, mapped; each has a gradient of its own
# kind: healthy
import copy

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

torch.manual_seed(0)
models = [nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1)) for _ in range(4)]
params, buffers = stack_module_state(models)
params = {name: p.detach() for name, p in params.items()}
base = copy.deepcopy(models[0]).to("meta")
x = torch.randn(4, 30, 3)
y = x.sum(2, keepdim=True).sin()


def loss_of(params, buffers, x, y):
    return nn.functional.mse_loss(functional_call(base, (params, buffers), (x,)), y)


for step in range(4):
    grads, losses = vmap(grad_and_value(loss_of))(params, buffers, x, y)
    params = {name: p - 0.1 * grads[name] for name, p in params.items()}
    print(step, losses.tolist())
