# from: https://github.com/keras-team/keras-core/issues/318
# exit: 0
# says: all 8 parameters got a gradient
# never: None|useless|exactly 0|leads? to it
"""A GAN as `Model.train_step`, as it should be: each network has a tape, and each gets its gradients."""

import keras
import tensorflow as tf

keras.utils.set_random_seed(0)


class Gan(keras.Model):
    def __init__(self):
        super().__init__()
        self.generator = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(6)])
        self.judge = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
        self.loss_of = keras.losses.BinaryCrossentropy(from_logits=True)

    def compile(self, generator_optimizer, judge_optimizer):
        super().compile()
        self.generator_optimizer, self.judge_optimizer = generator_optimizer, judge_optimizer

    def train_step(self, real):
        z = tf.random.normal((tf.shape(real)[0], 4))
        with tf.GradientTape() as judge_tape:
            both = self.judge(tf.concat([real, self.generator(z)], 0))
            truth = tf.concat([tf.ones_like(both[:8]), tf.zeros_like(both[8:])], 0)
            judge_loss = self.loss_of(truth, both)
        by_judge = judge_tape.gradient(judge_loss, self.judge.trainable_weights)
        self.judge_optimizer.apply_gradients(zip(by_judge, self.judge.trainable_weights))
        with tf.GradientTape() as generator_tape:
            score = self.judge(self.generator(z))
            generator_loss = self.loss_of(tf.ones_like(score), score)
        by_generator = generator_tape.gradient(generator_loss, self.generator.trainable_weights)
        self.generator_optimizer.apply_gradients(zip(by_generator, self.generator.trainable_weights))
        return {"judge": judge_loss, "generator": generator_loss}


gan = Gan()
gan.compile(keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-3))
gan.fit(tf.random.normal((16, 6), seed=1), batch_size=8, epochs=2, verbose=0)
