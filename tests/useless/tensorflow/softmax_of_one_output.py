# from: https://geek-tips.imtqy.com/articles/557592/index.html
# truth: the network has one output and takes a softmax along it, so it always says 1 and nothing can be trained
# kind: cancels
# names: softmax probability
import keras
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(1)
x = tf.random.normal((64, 10), seed=1)
y = tf.cast(tf.reduce_sum(x, 1, keepdims=True) > 0, tf.float32)

model = keras.Sequential([keras.Input((10,)), layers.Dense(12, activation="relu"), layers.Dense(1)])
criterion = keras.losses.BinaryCrossentropy()
optimizer = keras.optimizers.SGD(0.1)
for epoch in range(3):
    with tf.GradientTape() as tape:
        probability = tf.nn.softmax(model(x, training=True), axis=-1)  # <- here
        loss = criterion(y, probability)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    print(epoch, float(loss), float(max(tf.reduce_max(tf.abs(g)) for g in gradients)))
