# from: https://github.com/keras-team/keras-io/blob/master/examples/generative/vae.py
# truth: healthy: the reconstruction and the divergence pull in different directions
# kind: healthy
import keras
import tensorflow as tf
from keras import layers


class Vae(keras.Model):
    def __init__(self):
        super().__init__()
        self.body, self.mean, self.log_var = layers.Dense(16, "relu"), layers.Dense(2), layers.Dense(2)
        self.decoder = keras.Sequential([layers.Dense(16, "relu"), layers.Dense(10, "sigmoid")])

    def call(self, x):
        h = self.body(x)
        mean, log_var = self.mean(h), self.log_var(h)
        z = mean + tf.exp(0.5 * log_var) * tf.random.normal(tf.shape(mean))
        return self.decoder(z), mean, log_var

    def train_step(self, data):
        with tf.GradientTape() as tape:
            recon, mean, log_var = self(data)
            reconstruction = 10 * tf.reduce_mean(keras.losses.binary_crossentropy(data, recon))
            kl = -0.5 * tf.reduce_mean(tf.reduce_sum(1 + log_var - tf.square(mean) - tf.exp(log_var), axis=1))
            loss = reconstruction + kl
        grads = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(grads, self.trainable_weights))
        return {"loss": loss, "kl": kl}


keras.utils.set_random_seed(0)
x = tf.cast(tf.random.uniform((64, 10)) < tf.linspace(0.0, 1.0, 10), tf.float32)
vae = Vae()
vae.compile(optimizer=keras.optimizers.Adam(0.01))
print(vae.fit(x, epochs=3, batch_size=32, verbose=0).history)
