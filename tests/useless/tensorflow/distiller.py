# from: https://github.com/keras-team/keras-io/blob/master/examples/vision/knowledge_distillation.py
# truth: healthy: softmax of both networks at a temperature goes into a divergence, the teacher is not trained
# kind: healthy
import keras
import tensorflow as tf

keras.utils.set_random_seed(0)
teacher = keras.Sequential([keras.Input((6,)), keras.layers.Dense(32, "relu"), keras.layers.Dense(3)])
student = keras.Sequential([keras.Input((6,)), keras.layers.Dense(6, "relu"), keras.layers.Dense(3)])
optimizer = keras.optimizers.Adam(0.01)
x = tf.random.normal((48, 6))
y = tf.argmax(x[:, :3], 1)
cross = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
divergence, temperature, alpha = keras.losses.KLDivergence(), 3.0, 0.1


@tf.function
def step(x, y):
    soft = teacher(x, training=False)
    with tf.GradientTape() as tape:
        scores = student(x, training=True)
        distillation = divergence(tf.nn.softmax(soft / temperature, 1), tf.nn.softmax(scores / temperature, 1))
        loss = alpha * cross(y, scores) + (1 - alpha) * distillation * temperature**2
    grads = tape.gradient(loss, student.trainable_variables)
    optimizer.apply_gradients(zip(grads, student.trainable_variables))
    return loss


for epoch in range(4):
    print(epoch, float(step(x, y)))
