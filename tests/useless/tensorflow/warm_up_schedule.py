# from: https://www.tensorflow.org/text/tutorials/transformer
# truth: healthy: the rate of the first step is 0 and grows with each step
# kind: healthy
import keras
import numpy as np


class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, peak, steps):
        super().__init__()
        self.peak, self.steps = peak, steps

    def __call__(self, step):
        step = keras.ops.cast(step, "float32")
        return self.peak * keras.ops.minimum(step / self.steps, keras.ops.sqrt(self.steps / (step + 1.0)))


keras.utils.set_random_seed(0)
x = np.random.default_rng(0).normal(size=(64, 5)).astype("float32")
y = x[:, :1] * 2 - x[:, 1:2]
model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(WarmUp(0.05, 4.0), beta_2=0.98, epsilon=1e-9), loss="mse")
print(model.fit(x, y, batch_size=32, epochs=4, verbose=0).history["loss"])
