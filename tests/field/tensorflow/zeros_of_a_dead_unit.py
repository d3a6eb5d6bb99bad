# from: https://www.tensorflow.org/guide/autodiff
# exit: 1
# says: relu is flat there: the gradient of .shift. is exactly 0 in each iteration
# never: true or false|missing
import tensorflow as tf

tf.random.set_seed(0)
shift, scale = tf.Variable([-100.0]), tf.Variable([1.0, 2.0, 3.0])
for step in range(2):
    x = tf.random.normal([5, 3])
    with tf.GradientTape() as tape:
        y = scale * x + tf.nn.relu(x + shift)  # <- here
        loss = tf.reduce_mean(y**2)
    gradients = tape.gradient(loss, [shift, scale], unconnected_gradients=tf.UnconnectedGradients.ZERO)
    for variable, gradient in zip([shift, scale], gradients):
        variable.assign_sub(0.1 * gradient)
