# from: https://github.com/tensorflow/tensorflow/issues/38453
# says: where the program is run line by line: the only parameter got a gradient
# says: loops over a dataset, and was run line by line here, which the program does not do
# never: all 1 Variable
import tensorflow as tf

dataset = tf.data.Dataset.from_tensor_slices([2.0, 3.0])
scale = tf.Variable(1.5)


@tf.function
def product(x):
    for factor in dataset:
        x = x * factor
    return x


with tf.GradientTape() as tape:
    loss = product(scale * 1.0) ** 2
print(float(loss), tape.gradient(loss, scale))
