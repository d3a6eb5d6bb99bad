# from: own
# never: got no gradient
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
backbone = keras.layers.Dense(4, activation="relu", trainable=False)
head = keras.layers.Dense(2, kernel_regularizer="l2")
model = keras.Sequential([keras.Input((3,)), backbone, head])
optimizer = keras.optimizers.Adam(1e-2)
x, y = tf.random.normal((8, 3), seed=1), tf.zeros((8,), tf.int32)
for step in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x)))
        loss = loss + tf.add_n(model.losses)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
print([float(tf.norm(g)) for g in gradients])
