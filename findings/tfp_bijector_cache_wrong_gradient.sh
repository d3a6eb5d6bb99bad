#!/bin/sh
# TensorFlow Probability: a flow's log_prob, called before on the same tensor, gives a wrong gradient with respect to it.
#
# Bijectors remember what they computed of a tensor, by its identity, and share this between objects that are made anew
# with the same parameters. If `log_prob(x)` was called outside a GradientTape, as to print it, the next call inside of
# one takes the inverse of Softplus from memory: the tape sees it as a constant, and the part of the gradient that flows
# through it is missing. There is a gradient, no warning, and it even has another sign. `tf.identity(x)` gives the right
# one.
#
# Whoever differentiates a density with respect to data (scores, adversarial inputs, Langevin steps) and evaluates the
# same tensor before meets it. What helps: evaluate inside the tape, or give each call `tf.identity(x)`.
#
# Seen with: tensorflow-probability 0.25.0, TensorFlow 2.21.0 (CPU), tf_keras 2.21.0, Python 3.11
# tensorflow_probability 0.25.0 | numeric 0.81 | of a new tensor 0.81 | of one that was evaluated before -0.17
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ${PIP_OPTIONS:-} \
  tensorflow==2.21.0 tensorflow-probability==0.25.0 tf-keras==2.21.0
cat >"$folder/shown.py" <<'PYTHON'
import tensorflow as tf
import tensorflow_probability as tfp

tfd, tfb = tfp.distributions, tfp.bijectors


def energy(x):
    flow = tfb.Chain([tfb.Softplus(), tfb.Shift(0.1)])
    return -tf.reduce_sum(tfd.TransformedDistribution(tfd.Normal(0.0, 1.0), flow).log_prob(x))


def slope(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        result = energy(x)
    return f"{float(tape.gradient(result, x)[0]):.2f}"


x = tf.constant([0.7, 1.5])
step = tf.constant([1e-3, 0.0])
numeric = float(energy(x + step) - energy(x - step)) / 2e-3
new, seen = slope(tf.identity(x)), tf.identity(x)
energy(seen)
print(f"tensorflow_probability {tfp.__version__} | numeric {numeric:.2f} | of a new tensor {new} | "
      f"of one that was evaluated before {slope(seen)}")
PYTHON
said=$(TF_CPP_MIN_LOG_LEVEL=3 "$folder/env/bin/python" "$folder/shown.py" 2>/dev/null)
echo "$said"
[ "$said" = "tensorflow_probability 0.25.0 | numeric 0.81 | of a new tensor 0.81 | of one that was evaluated before -0.17" ]
