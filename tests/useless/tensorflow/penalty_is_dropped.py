# from: own
# truth: tf.add returns the sum of the loss and the penalty, nothing keeps it, and the weights are never held down
# kind: other
# names: penalty
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(12, activation="tanh"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(0.01)
x = tf.random.normal((32, 6))
y = tf.reduce_sum(x[:, :2], axis=1, keepdims=True)
for step in range(4):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - y))
        penalty = 0.01 * tf.add_n([tf.nn.l2_loss(one) for one in model.trainable_variables if one.shape.rank == 2])
        tf.add(loss, penalty)  # <- here
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    print(step, float(loss))
