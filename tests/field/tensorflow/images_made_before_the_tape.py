# from: https://github.com/tensorflow/tensorflow/issues/31265
# exit: 1
# says: generator
# says: before
# never: all \d+ parameters got a gradient
# never: tape\.watch
"""A GAN as `Model.train_step`: the generator's tape is opened when its images are made already."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)


class Gan(keras.Model):
    def __init__(self):
        super().__init__()
        self.generator = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(6)])
        self.judge = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
        self.loss_of = keras.losses.BinaryCrossentropy(from_logits=True)

    def compile(self, generator_optimizer, judge_optimizer):
        super().compile()
        self.generator_optimizer, self.judge_optimizer = generator_optimizer, judge_optimizer

    def train_step(self, real):
        z = tf.random.normal((tf.shape(real)[0], 4))
        fake = self.generator(z, training=True)  # <- here
        with tf.GradientTape() as judge_tape, tf.GradientTape() as generator_tape:
            by_real, by_fake = self.judge(real), self.judge(fake)
            judge_loss = self.loss_of(tf.ones_like(by_real), by_real) + self.loss_of(tf.zeros_like(by_fake), by_fake)
            generator_loss = self.loss_of(tf.ones_like(by_fake), by_fake)
        by_judge = judge_tape.gradient(judge_loss, self.judge.trainable_variables)
        by_generator = generator_tape.gradient(generator_loss, self.generator.trainable_variables)
        self.judge_optimizer.apply_gradients(zip(by_judge, self.judge.trainable_variables))
        pairs = [(g, v) for g, v in zip(by_generator, self.generator.trainable_variables) if g is not None]
        if pairs:
            self.generator_optimizer.apply_gradients(pairs)
        return {"judge": judge_loss, "generator": generator_loss}


gan = Gan()
gan.compile(keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-3))
gan.fit(tf.random.normal((16, 6), seed=1), batch_size=8, epochs=2, verbose=0)
