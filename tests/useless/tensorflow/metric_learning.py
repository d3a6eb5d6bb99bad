# from: https://github.com/keras-team/keras-io/blob/master/examples/vision/metric_learning.py
# truth: healthy: the table of all anchors with all positives is the wanted outer product of a contrastive loss
# kind: healthy
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
net = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(4), keras.layers.UnitNormalization()]
)
optimizer = keras.optimizers.Adam(5e-3)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
classes = tf.random.normal((10, 8))
for step in range(4):
    anchors = classes + 0.3 * tf.random.normal((10, 8))
    positives = classes + 0.3 * tf.random.normal((10, 8))
    with tf.GradientTape() as tape:
        similarities = tf.einsum("ae,pe->ap", net(anchors), net(positives)) / 0.2
        loss = loss_fn(tf.range(10), similarities)
    grads = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(grads, net.trainable_variables))
    print(step, float(loss))
