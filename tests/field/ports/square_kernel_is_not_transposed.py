# from: https://github.com/google/flax/pull/1848
# ask: python
# says: ^values differ first at 'second(\.weight)?'
# never: differ first at 'first
# Two square layers; the weight of the second was copied as it lies.
import jax.numpy as jnp
import numpy as np
import torch
from flax import nnx

import backprobe as bp


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


class Port(nnx.Module):
    def __init__(self, given):
        rngs = nnx.Rngs(0)
        self.first, self.second = nnx.Linear(6, 6, rngs=rngs), nnx.Linear(6, 6, rngs=rngs)
        self.first.kernel[...] = given["first.weight"].numpy().T
        self.second.kernel[...] = given["second.weight"].numpy()
        self.first.bias[...], self.second.bias[...] = given["first.bias"].numpy(), given["second.bias"].numpy()

    def __call__(self, x):
        return self.second(nnx.relu(self.first(x)))


torch.manual_seed(0)
model = Model()
x = np.random.default_rng(0).standard_normal((3, 6)).astype(np.float32)
one = bp.probe(model, of=lambda y: (y * y).mean())(torch.tensor(x))
two = bp.probe(Port(model.state_dict()), of=lambda y: (y * y).mean())(jnp.asarray(x))
print(bp.diff(one, two))
