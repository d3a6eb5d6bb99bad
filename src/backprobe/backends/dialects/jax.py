"""The dialect of JAX."""

from __future__ import annotations

from backprobe.backends.dialects.dialect import Dialect

DIALECT = Dialect(
    name="jax",
    prefix="jnp.",
    spelled={
        "rsqrt": "jax.lax.rsqrt({0})",
        "atan2": "jnp.arctan2({0}, {1})",
        "acos": "jnp.arccos({0})",
        "asin": "jnp.arcsin({0})",
        "atanh": "jnp.arctanh({0})",
        "acosh": "jnp.arccosh({0})",
        "max_of_numbers": "max({0}, {1})",
        "min_of_numbers": "min({0}, {1})",
        "unsqueeze": "jnp.expand_dims({0}, {1})",
        "clamp": "jnp.clip({0}, {1}, {2})",
        "softmax": "jax.nn.softmax({0}{words})",
        "log_softmax": "jax.nn.log_softmax({0}{words})",
        "logsumexp": "jax.nn.logsumexp({0}{words})",
        "log_sigmoid": "jax.nn.log_sigmoid({0})",
        "sigmoid": "jax.nn.sigmoid({0})",
        "softplus": "jax.nn.softplus({0})",
        "logcumsumexp": "jax.lax.cumlogsumexp({0}{words})",
        "logit": "jax.scipy.special.logit({0})",
        "log_of_others": (
            "jax.nn.logsumexp(jnp.where(jnp.eye({0}.shape[-1], dtype=bool), -jnp.inf, {0}[..., None, :]), "
            "axis=-1) - jax.nn.logsumexp({0}, axis=-1, keepdims=True)"
        ),
    },
    arguments={
        "dim": "axis",
        "keepdim": "keepdims",
        "correction": "ddof",
    },
    lacks=frozenset(["lgamma", "erfinv", "cross_entropy", "nll_loss"]),
    meanings={
        "size": "count",
        "cumsum": "cumsum_or_flat",
        "logcumsumexp": "logcumsumexp_first",
        "transpose": "permute",
        "std": "std_of_all",
        "var": "var_of_all",
        "max": "max",
        "min": "min",
    },
    from_logits="optax.softmax_cross_entropy({a}, labels)",
    binary_from_logits="optax.sigmoid_binary_cross_entropy({a}, labels)",
    float32="{0}.astype('float32')",
    clipped="optax.clip_by_global_norm(1.0)",
    ones="jnp.ones({})",
    cut_off=(
        "it was computed from no argument of the function, or was cut off on the way "
        "(jax.lax.stop_gradient, NumPy, an integer or bool dtype)",
        "remove what cuts it off; or give the function what it is computed from as an argument",
    ),
    libraries=("equinox", "flax", "optax"),
    flat_cut="zero_derivative",
    remedies={
        "freeze": "jax.lax.stop_gradient",
        "leave_it": "leave it out of what is differentiated",
        "leave_them": "leave them out of what is differentiated",
        "tensor": "an array of one element",
        "join": "jnp.stack([...]) or jnp.concatenate([...]) of arrays, jnp.copy() for a copy",
        "where": "jnp.where",
        "floating": "astype to a floating dtype",
        "draw_smoothly": "mean + deviation * jax.random.normal(...), or what the distribution has like it",
        "differentiably": "jax.grad of a function, which can itself be differentiated",
        "require": "give it to the function as an argument; where wrt= is given, with its name there",
        "require_it": "wrt={argument!r}, if it is an argument; what is none has to become one",
        "require_inside": "what {text} computes with, given to the function as an argument",
        "go_back": "run the function under bp.probe",
        "straight_through": "u + jax.lax.stop_gradient({op}(u) - u)",
        "noise": "jax.random.normal(key, mean.shape)",
        "squeeze": ".squeeze(-1)",
        "normalise": "jax.nn.log_softmax(...)",
        "of_logits": "optax.softmax_cross_entropy_with_integer_labels",
        "from_logits": "optax.sigmoid_binary_cross_entropy or optax.softmax_cross_entropy",
        "half": "cast to 16 bits in the forward alone",
    },
)
