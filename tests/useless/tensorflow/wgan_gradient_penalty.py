# from: https://github.com/keras-team/keras-io/blob/master/examples/generative/wgan_gp.py
# truth: healthy: the last bias of the critic cancels between real and fake, as it always does; two optimizers
# kind: healthy
import keras
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(0)
generator = keras.Sequential([keras.Input((3,)), layers.Dense(12, "relu"), layers.Dense(2)])
critic = keras.Sequential([keras.Input((2,)), layers.Dense(12), layers.LeakyReLU(0.2), layers.Dense(1)])
g_optimizer, d_optimizer = (keras.optimizers.Adam(2e-3, beta_1=0.5) for _ in range(2))
for step in range(3):
    angle = tf.random.uniform((32, 1), 0, 6.28)
    real = tf.concat([tf.cos(angle), tf.sin(angle)], 1)
    with tf.GradientTape() as tape:
        fake = generator(tf.random.normal((32, 3)))
        alpha = tf.random.uniform((32, 1))
        between = alpha * real + (1 - alpha) * fake
        with tf.GradientTape() as inner:
            inner.watch(between)
            judged = critic(between)
        norm = tf.sqrt(tf.reduce_sum(tf.square(inner.gradient(judged, between)), axis=1))
        cost = tf.reduce_mean(critic(fake)) - tf.reduce_mean(critic(real))
        d_loss = cost + 10.0 * tf.reduce_mean((norm - 1.0) ** 2)
    grads = tape.gradient(d_loss, critic.trainable_variables)
    d_optimizer.apply_gradients(zip(grads, critic.trainable_variables))
    with tf.GradientTape() as tape:
        g_loss = -tf.reduce_mean(critic(generator(tf.random.normal((32, 3)))))
    grads = tape.gradient(g_loss, generator.trainable_variables)
    g_optimizer.apply_gradients(zip(grads, generator.trainable_variables))
    print(step, float(d_loss), float(g_loss))
