"""What programs of TensorFlow are compared with: the gradients that its own tape gives."""

import tensorflow as tf


def by(function, *args):
    """The gradients with respect to the arguments that hold floating-point numbers, by the names of these."""
    named = {
        name: one
        for name, one in zip(function.__code__.co_varnames, args, strict=False)
        if hasattr(one, "dtype") and tf.as_dtype(one.dtype).is_floating
    }
    with tf.GradientTape() as tape:
        for one in named.values():
            tape.watch(one)
        result = function(*args)
    found = tape.gradient(result, named)
    return {name: tf.convert_to_tensor(one) for name, one in found.items() if one is not None}
