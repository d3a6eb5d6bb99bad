# from: https://github.com/pytorch/pytorch/issues/141256
# ask: python
# says: ^values differ first at 'middle\.weight'
# never: 'entry' differs
# never: 'out' differs
# Weights were brought over by name, and one layer is called otherwise: it keeps what it was made with.
import keras
import numpy as np
import torch

import backprobe as bp


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.entry, self.middle, self.out = torch.nn.Linear(5, 6), torch.nn.Linear(6, 6), torch.nn.Linear(6, 2)

    def forward(self, x):
        return self.out(torch.tanh(self.middle(torch.tanh(self.entry(x)))))


torch.manual_seed(0)
keras.utils.set_random_seed(0)
model = Model()
given = {name: value.numpy() for name, value in model.state_dict().items()}
inputs = keras.Input((5,))
y = keras.layers.Dense(6, activation="tanh", name="entry")(inputs)
y = keras.layers.Dense(6, activation="tanh", name="mid")(y)
port = keras.Model(inputs, keras.layers.Dense(2, name="out")(y))
for layer in port.layers[1:]:
    if f"{layer.name}.weight" in given:
        layer.set_weights([given[f"{layer.name}.weight"].T, given[f"{layer.name}.bias"]])
x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
one = bp.probe(model, of=lambda y: (y * y).mean())(torch.tensor(x))
two = bp.probe(port, of=lambda y: keras.ops.mean(y * y))(keras.ops.convert_to_tensor(x))
print(bp.diff(one, two))
