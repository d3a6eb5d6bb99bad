# from: https://github.com/google/flax/pull/1848
# ask: python
# says: ok True
# never: differs? first
# Layers of one shape with other names: the port declares them the other way round and runs them as the model does.
import jax.numpy as jnp
import numpy as np
import torch
from flax import nnx

import backprobe as bp


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = torch.nn.Linear(6, 6), torch.nn.Linear(6, 6), torch.nn.Linear(6, 6)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


class Port(nnx.Module):
    def __init__(self, given):
        rngs = nnx.Rngs(0)
        self.out, self.middle, self.entry = (nnx.Linear(6, 6, rngs=rngs) for _ in range(3))
        for own, other in ((self.entry, "fc1"), (self.middle, "fc2"), (self.out, "fc3")):
            own.kernel[...] = given[f"{other}.weight"].numpy().T
            own.bias[...] = given[f"{other}.bias"].numpy()

    def __call__(self, x):
        return self.out(nnx.relu(self.middle(nnx.relu(self.entry(x)))))


torch.manual_seed(0)
model = Model()
x = np.random.default_rng(0).standard_normal((3, 6)).astype(np.float32)
one = bp.probe(model, of=lambda y: (y * y).mean())(torch.tensor(x))
two = bp.probe(Port(model.state_dict()), of=lambda y: (y * y).mean())(jnp.asarray(x))
report = bp.diff(one, two)
print(report)
print("ok", report.ok)
