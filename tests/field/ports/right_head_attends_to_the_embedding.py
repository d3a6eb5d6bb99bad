# from: https://github.com/huggingface/transformers/issues/16733
# ask: python
# says: ok True
# never: differs? first
# The tied head, as Flax spells it.
import jax.numpy as jnp
import numpy as np
import torch
from _tied_in_torch import Model
from flax import nnx

import backprobe as bp


class Port(nnx.Module):
    def __init__(self, given):
        rngs = nnx.Rngs(0)
        self.embed, self.mlp = nnx.Embed(11, 6, rngs=rngs), nnx.Linear(6, 6, rngs=rngs)
        self.embed.embedding[...] = given["embed.weight"].numpy()
        self.mlp.kernel[...], self.mlp.bias[...] = given["mlp.weight"].numpy().T, given["mlp.bias"].numpy()

    def __call__(self, ids):
        x = self.embed(ids)
        x = x + jnp.tanh(self.mlp(x))
        return self.embed.attend(x)


torch.manual_seed(0)
model = Model()
ids = np.random.default_rng(0).integers(0, 11, (2, 5))
one = bp.probe(model, of=lambda y: (y * y).mean())(torch.tensor(ids))
two = bp.probe(Port(model.state_dict()), of=lambda y: (y * y).mean())(jnp.asarray(ids))
report = bp.diff(one, two)
print(report)
print("ok", report.ok)
