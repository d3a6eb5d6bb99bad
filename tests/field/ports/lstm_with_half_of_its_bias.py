# from: https://discuss.pytorch.org/t/pretrained-keras-lstm-weights-to-pytorch-lstm/110741
# ask: python
# says: ^values differ first at 'lstm.bias
# PyTorch has two biases, which are added, and Keras one: only the first was brought over.
import keras
import numpy as np
import torch

import backprobe as bp


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = torch.nn.LSTM(4, 5, batch_first=True), torch.nn.Linear(5, 2)

    def forward(self, x):
        hidden, _ = self.lstm(x)
        return self.head(hidden[:, -1])


torch.manual_seed(0)
model = Model()
given = {name: value.numpy() for name, value in model.state_dict().items()}
inputs = keras.Input((None, 4))
port = keras.Model(inputs, keras.layers.Dense(2, name="head")(keras.layers.LSTM(5, name="lstm")(inputs)))
port.get_layer("lstm").set_weights(
    [given["lstm.weight_ih_l0"].T, given["lstm.weight_hh_l0"].T, given["lstm.bias_ih_l0"]]
)
port.get_layer("head").set_weights([given["head.weight"].T, given["head.bias"]])
x = np.random.default_rng(0).standard_normal((2, 6, 4)).astype(np.float32)
one = bp.probe(model, of=lambda y: (y * y).mean())(torch.tensor(x))
two = bp.probe(port, of=lambda y: keras.ops.mean(y * y))(keras.ops.convert_to_tensor(x))
print(bp.diff(one, two))
