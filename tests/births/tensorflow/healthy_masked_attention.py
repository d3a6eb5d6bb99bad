# from: https://keras.io/api/layers/attention_layers/multi_head_attention/
# ask: explain --nonfinite
# birth: healthy
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
attention, head = keras.layers.MultiHeadAttention(2, 4), keras.layers.Dense(1)
x, y = tf.random.normal([2, 3, 8]), tf.random.normal([2, 3, 1])
mask = tf.constant([[[True, False, False], [True, True, False], [True, True, True]]] * 2)
head(attention(x, x, attention_mask=mask))
optimizer = keras.optimizers.Adam(0.01)
for step in range(3):
    with tf.GradientTape() as tape:
        h = attention(x, x, attention_mask=mask)
        loss = tf.reduce_mean((head(h) - y) ** 2)
    variables = attention.trainable_variables + head.trainable_variables
    gradients = tape.gradient(loss, variables)
    optimizer.apply_gradients(zip(gradients, variables))
