# from: https://www.tensorflow.org/recommenders/examples/basic_retrieval
# truth: healthy: users times items of a batch is the wanted table, the diagonal is right; other rows rest
# kind: healthy
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
users, items = keras.layers.Embedding(30, 6), keras.layers.Embedding(50, 6)
optimizer = keras.optimizers.Adagrad(0.5)
for step in range(4):
    u = tf.random.uniform((16,), 0, 30, tf.int32)
    i = (u + tf.random.uniform((16,), 0, 3, tf.int32)) % 50
    with tf.GradientTape() as tape:
        scores = tf.matmul(users(u), items(i), transpose_b=True)
        loss = tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(tf.eye(16), scores))
    variables = users.trainable_variables + items.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    print(step, float(loss))
