# from: https://keras.io/guides/custom_train_step_in_torch/
# exit: 1
# says: decision|greater|cast|>
# never: all \d+ parameters got a gradient$
"""Keras on PyTorch, with a step of one's own: the loss compares decisions, which have no slope."""

import os

os.environ["KERAS_BACKEND"] = "torch"
import keras  # noqa: E402
import torch  # noqa: E402

keras.utils.set_random_seed(0)


class Decider(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = keras.layers.Dense(6, activation="tanh"), keras.layers.Dense(1)
        self.offset = self.add_weight(shape=(1,), initializer="zeros", name="offset")

    def call(self, x):
        return keras.ops.sigmoid(self.head(self.hidden(x)))

    def train_step(self, data):
        x, y = data
        decision = keras.ops.cast(keras.ops.greater(self(x, training=True), 0.5), "float32")  # <- here
        loss = keras.ops.mean(keras.ops.square(decision + self.offset - y))
        self.zero_grad()
        loss.backward()
        with torch.no_grad():
            pairs = [(v.value.grad, v) for v in self.trainable_weights if v.value.grad is not None]
            self.optimizer.apply(*zip(*pairs))
        return {"loss": loss}


x = torch.randn(16, 3)
model = Decider()
model.compile(optimizer=keras.optimizers.SGD(0.1))
model(x)
model.fit(x, (x.sum(1, keepdim=True) > 0).float(), epochs=1, batch_size=8, verbose=0)
