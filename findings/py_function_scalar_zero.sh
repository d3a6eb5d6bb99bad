#!/bin/sh
# TensorFlow: the gradient of tf.py_function is one 0 of shape () where its function has no history.
#
# A function that leaves TensorFlow and comes back, as by x.numpy(), has no gradient. Of tf.numpy_function the tape says
# None. Of tf.py_function it gives 0.0 of shape (), whatever the shape of its argument is. Where the argument is used
# beside it, the tape adds that to the other gradient and raises InvalidArgumentError of AddN, far from the line that has
# no gradient and without its name.
#
# What helps: operations of TensorFlow inside the function, or tf.custom_gradient around it.
#
# Seen with: TensorFlow 2.21.0 (CPU), Python 3.11
# tensorflow 2.21.0 | py_function: 0.0 of shape () for an argument of (3,) | beside another use: InvalidArgumentError of AddN | numpy_function: None
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ${PIP_OPTIONS:-} tensorflow==2.21.0
cat >"$folder/shown.py" <<'PYTHON'
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf

x = tf.constant([1.0, 2.0, 3.0])


def squared():
    return tf.reduce_sum(tf.py_function(lambda one: tf.constant(one.numpy() ** 2), [x], tf.float32))


def gradient(loss):
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = loss()
    try:
        found = tape.gradient(value, x)
    except tf.errors.InvalidArgumentError as error:
        return f"{type(error).__name__}{' of AddN' if 'AddN' in str(error) else ''}"
    return "None" if found is None else f"{found.numpy()} of shape {tuple(found.shape)} for an argument of {tuple(x.shape)}"


print(f"tensorflow {tf.__version__} | py_function: {gradient(squared)}"
      f" | beside another use: {gradient(lambda: squared() + tf.reduce_sum(2 * x))}"
      f" | numpy_function: {gradient(lambda: tf.reduce_sum(tf.numpy_function(lambda one: one**2, [x], tf.float32)))}")
PYTHON
said=$("$folder/env/bin/python" "$folder/shown.py" 2>/dev/null)
echo "$said"
[ "$said" = "tensorflow 2.21.0 | py_function: 0.0 of shape () for an argument of (3,) | beside another use: InvalidArgumentError of AddN | numpy_function: None" ]
