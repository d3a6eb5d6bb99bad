# from: https://github.com/google/flax/issues/2993
# ask: python
# says: ok True
# never: differs? first
# The same port with the padding written out.
import jax.numpy as jnp
import numpy as np
import torch
from flax import nnx

import backprobe as bp


class Stem(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1), torch.nn.Linear(4, 2)

    def forward(self, image):
        return self.head(self.conv(image).relu().mean((2, 3)))


class Port(nnx.Module):
    def __init__(self, given):
        rngs = nnx.Rngs(0)
        self.conv = nnx.Conv(3, 4, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)), rngs=rngs)
        self.head = nnx.Linear(4, 2, rngs=rngs)
        self.conv.kernel[...] = given["conv.weight"].numpy().transpose(2, 3, 1, 0)
        self.conv.bias[...] = given["conv.bias"].numpy()
        self.head.kernel[...], self.head.bias[...] = given["head.weight"].numpy().T, given["head.bias"].numpy()

    def __call__(self, image):
        return self.head(nnx.relu(self.conv(image)).mean((1, 2)))


torch.manual_seed(0)
model = Stem()
image = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
one = bp.probe(model, of=lambda y: (y * y).mean())(torch.tensor(image))
two = bp.probe(Port(model.state_dict()), of=lambda y: (y * y).mean())(jnp.asarray(image.transpose(0, 2, 3, 1)))
report = bp.diff(one, two)
print(report)
print("ok", report.ok)
