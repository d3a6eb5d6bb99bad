# from: https://github.com/jaehong31/CGES/issues/1
# truth: the network returns a softmax, and the loss with logits applies another one
# kind: distribution twice
import numpy as np
import tensorflow as tf

tf.random.set_seed(0)
images = tf.random.uniform((40, 8, 8, 1))
labels = tf.one_hot(np.arange(40) % 4, 4)
kernel = tf.Variable(tf.random.normal((3, 3, 1, 6), stddev=0.2), name="kernel")
dense = tf.Variable(tf.random.normal((216, 4), stddev=0.05), name="dense")
bias = tf.Variable(tf.zeros(4), name="bias")


def conv_net(x):
    hidden = tf.nn.relu(tf.nn.conv2d(x, kernel, strides=1, padding="VALID"))
    output = tf.reshape(hidden, (-1, 216)) @ dense + bias
    return tf.nn.softmax(output)


for epoch in range(3):
    with tf.GradientTape() as tape:
        y_conv = conv_net(images)
        each = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=y_conv)  # <- here
        loss = tf.reduce_mean(each)
    for variable, slope in zip((kernel, dense, bias), tape.gradient(loss, (kernel, dense, bias))):
        variable.assign_sub(0.1 * slope)
    print(epoch, float(loss))
