"""Functions of TensorFlow that only compute, by name, with which a recorded line can be evaluated again.

Only the names in this table are looked up. Text from a recording is never run as code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

HOMES = (tf, tf.math, tf.nn, tf.linalg)
KNOWN = frozenset({
    "multiply_no_nan", "divide_no_nan", "xdivy", "xlogy", "xlog1py", "lgamma", "digamma", "polygamma", "zeta", "lbeta",
    "igamma", "igammac", "betainc", "erf", "erfc", "erfinv", "ndtri", "l2_normalize", "normalize", "norm", "logdet",
    "slogdet", "det", "inv", "pinv", "trace", "diag", "diag_part", "tensor_diag", "set_diag", "einsum", "tensordot",
    "sparse_softmax_cross_entropy_with_logits", "softmax_cross_entropy_with_logits", "l2_loss", "log_poisson_loss",
    "sigmoid_cross_entropy_with_logits", "weighted_cross_entropy_with_logits", "cumsum", "cumprod",
    "cumulative_logsumexp", "moments", "gelu", "elu", "selu", "silu", "swish", "relu6", "leaky_relu", "softsign",
    "crelu", "bias_add", "linspace", "one_hot", "boolean_mask", "gather", "roll", "reverse", "repeat", "stack",
    "concat", "top_k", "sort", "truediv", "floormod", "rint", "squared_difference", "atan", "asinh", "zero_fraction",
    "local_response_normalization", "batch_normalization",
})  # fmt: skip
SPELLED = {"dim": "axis", "keepdim": "keepdims"}


def evaluate(operation: str, args: Sequence[Any], words: Mapping[str, Any]) -> Any:
    """Call the function on NumPy arrays, and return NumPy arrays. Return None if the name is unknown, if the arguments
    do not fit, or if eager execution is disabled.
    """
    spelled = {SPELLED.get(word, word): one for word, one in words.items()}
    with tf.init_scope():  # outside of the graph that the program may be building
        for home in HOMES if operation in KNOWN and tf.executing_eagerly() else ():
            function = getattr(home, operation, None)
            try:
                made = None if function is None else _plain(function(*args, **spelled))
            except (tf.errors.OpError, TypeError, ValueError, AttributeError):
                continue
            if made is not None:
                return made
    return None


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value.numpy() if tf.is_tensor(value) else None
