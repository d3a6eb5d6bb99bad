# from: https://github.com/huggingface/transformers/pull/19454
# ask: python
# says: ok True
# never: differs? first
import keras
import numpy as np
import torch

import backprobe as bp


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.GroupNorm(2, 8, eps=1e-3)
        self.head = torch.nn.Linear(8, 2)

    def forward(self, image):
        return self.head(torch.relu(self.norm(self.conv(image))).mean((2, 3)))


torch.manual_seed(0)
model = Model()
torch.nn.init.normal_(model.norm.weight)
given = {name: value.numpy() for name, value in model.state_dict().items()}
image = keras.Input((6, 6, 3))
y = keras.layers.Conv2D(8, 3, padding="same", name="conv")(image)
y = keras.layers.ReLU()(keras.layers.GroupNormalization(2, epsilon=1e-3, name="norm")(y))
port = keras.Model(image, keras.layers.Dense(2, name="head")(keras.layers.GlobalAveragePooling2D()(y)))
port.get_layer("conv").set_weights([given["conv.weight"].transpose(2, 3, 1, 0), given["conv.bias"]])
port.get_layer("norm").set_weights([given["norm.weight"], given["norm.bias"]])
port.get_layer("head").set_weights([given["head.weight"].T, given["head.bias"]])
x = np.random.default_rng(0).standard_normal((2, 3, 6, 6)).astype(np.float32)
one = bp.probe(model, of=lambda y: (y * y).mean())(torch.tensor(x))
two = bp.probe(port, of=lambda y: keras.ops.mean(y * y))(keras.ops.convert_to_tensor(x.transpose(0, 2, 3, 1)))
report = bp.diff(one, two)
print(report)
print("ok", report.ok)
