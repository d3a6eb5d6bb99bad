"""The dialect of TensorFlow."""

from __future__ import annotations

from backprobe.backends.dialects.dialect import Dialect

DIALECT = Dialect(
    name="tensorflow",
    prefix="tf.",
    spelled={
        "log": "tf.math.log({0})",
        "log1p": "tf.math.log1p({0})",
        "rsqrt": "tf.math.rsqrt({0})",
        "expm1": "tf.math.expm1({0})",
        "atan2": "tf.math.atan2({0}, {1})",
        "angle": "tf.math.angle({0})",
        "max_of_numbers": "max({0}, {1})",
        "min_of_numbers": "min({0}, {1})",
        "unsqueeze": "tf.expand_dims({0}, {1})",
        "clamp": "tf.clip_by_value({0}, {1}, {2})",
        "softmax": "tf.nn.softmax({0}{words})",
        "log_softmax": "tf.nn.log_softmax({0}{words})",
        "logsumexp": "tf.reduce_logsumexp({0}{words})",
        "log_sigmoid": "tf.math.log_sigmoid({0})",
        "softplus": "tf.nn.softplus({0})",
        "logcumsumexp": "tf.math.cumulative_logsumexp({0}{words})",
        "lgamma": "tf.math.lgamma({0})",
        "log_of_others": (
            "tf.reduce_logsumexp(tf.linalg.set_diag(tf.repeat({0}[..., None, :], tf.shape({0})[-1], -2), "
            "tf.fill(tf.shape({0}), -float('inf'))), axis=-1) - tf.reduce_logsumexp({0}, axis=-1, "
            "keepdims=True)"
        ),
        "sum": "tf.reduce_sum({0}{words})",
        "var": "tf.math.reduce_variance({0}{words})",
    },
    arguments={
        "dim": "axis",
        "keepdim": "keepdims",
    },
    lacks=frozenset(["logit", "erfinv", "cross_entropy", "nll_loss"]),
    meanings={
        "size": "count",
        "cumsum": "cumsum_first",
        "logcumsumexp": "logcumsumexp_first",
        "gather": "take",
        "gather_nd": "take_nd",
        "transpose": "permute",
        "std": "std_of_all",
        "var": "var_of_all",
        "max": "max",
        "min": "min",
    },
    from_logits="tf.nn.softmax_cross_entropy_with_logits(labels, {a})",
    binary_from_logits="tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits={a})",
    float32="tf.cast({0}, tf.float32)",
    clipped="the optimizer's clipnorm=1.0",
    ones="tf.ones({})",
    cut_off=(
        "it was computed from no argument and no trainable Variable, or was cut off on the way "
        "(tf.stop_gradient, NumPy, an integer or bool dtype)",
        "remove what cuts it off; or trainable=True for a Variable that it is computed from",
    ),
    libraries=("keras",),
    extremes={"argmax": "tf.reduce_max", "argmin": "tf.reduce_min", "argsort": "tf.sort"},
    flat_cut="no_derivative",
    flat_without_cut=frozenset({"sign", "heaviside"}),
    is_watched_by_tape=True,
    has_named_nodes=True,
    remedies={
        "freeze": "trainable = False",
        "leave_it": "freeze it with trainable = False",
        "leave_them": "freeze them with trainable = False",
        "tensor": "a tensor of one element",
        "join": "tf.stack([...]) or tf.concat([...], 0) of tensors, tf.identity() for a copy",
        "where": "tf.where",
        "floating": "tf.cast to a floating dtype",
        "draw_smoothly": "mean + deviation * tf.random.normal(...), or what the distribution has like it",
        "differentiably": "a tf.GradientTape around it that is asked as well",
        "require": "a Variable with trainable=True for what should be differentiated; in the function form wrt=",
        "require_it": (
            "trainable=True where it is made, if it is a Variable; in the function form wrt={argument!r}, if "
            "it is an argument"
        ),
        "require_inside": "trainable=True for what {text} computes with, as the weights of a model",
        "go_back": "end the block: its gradients are there when it is over",
        "straight_through": "u + tf.stop_gradient({op}(u) - u)",
        "noise": "tf.random.normal(mean.shape)",
        "squeeze": "tf.squeeze(..., -1)",
        "normalise": "tf.nn.log_softmax(...)",
        "of_logits": "tf.nn.sparse_softmax_cross_entropy_with_logits",
        "from_logits": "from_logits=True of the loss",
        "half": "with mixed_float16 or mixed_bfloat16 as the dtype policy",
    },
)
