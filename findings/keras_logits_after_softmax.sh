#!/bin/sh
# Keras: a loss told from_logits=True of a model that ends in a softmax trains otherwise with each backend.
#
# With TensorFlow, Keras finds the Softmax operation behind the output, takes what that was given, and warns: the weights
# after a step are those of from_logits=False. With JAX and PyTorch it takes the probabilities for logits, says nothing, and
# applies softmax twice: the gradients are too small and the step is another one. So a training that is ported between
# backends, with the same seed and numbers, learns otherwise.
#
# Whoever compares two backends meets it as a gradient that differs from the last layer on. What helps: a last layer
# without activation where the loss is told from_logits=True.
#
# Seen with: Keras 3.15.1, TensorFlow 2.21.0, JAX 0.10.2, PyTorch 2.13.0 (CPU), Python 3.11
# keras 3.15.1 | tensorflow: the same step as from_logits=False, warned | jax: another step, silent | torch: another step, silent
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet --disable-pip-version-check ${PIP_OPTIONS:-} \
  keras==3.15.1 tensorflow==2.21.0 jax==0.10.2 torch==2.13.0
cat >"$folder/shown.py" <<'PYTHON'
import os
import sys
import warnings

os.environ |= {"KERAS_BACKEND": sys.argv[1], "TF_CPP_MIN_LOG_LEVEL": "3"}
import keras
import numpy


def trained(from_logits):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=from_logits)
    model.compile(optimizer=keras.optimizers.SGD(1.0), loss=loss)
    x = numpy.linspace(-1, 1, 32).reshape(8, 4).astype("float32")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.train_on_batch(x, numpy.arange(8) % 3)
    return model.get_weights()[0], any("from_logits" in str(one.message) for one in caught)


(told, is_warned), (plain, _) = trained(True), trained(False)
step = "the same step as from_logits=False" if numpy.allclose(told, plain, atol=1e-5) else "another step"
print(f"{sys.argv[1]}: {step}, {'warned' if is_warned else 'silent'}")
PYTHON
said="keras $("$folder/env/bin/pip" show keras 2>/dev/null | sed -n 's/^Version: //p')"
for backend in tensorflow jax torch; do
  said="$said | $("$folder/env/bin/python" "$folder/shown.py" "$backend" 2>/dev/null | tail -1)"
done
echo "$said"
[ "$said" = "keras 3.15.1 | tensorflow: the same step as from_logits=False, warned | jax: another step, silent | torch: another step, silent" ]
