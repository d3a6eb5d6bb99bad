"""Functions of PyTorch that only compute, by name, with which a recorded line can be evaluated again.

Only the names in this table are looked up. Text from a recording is never run as code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor

from backprobe.backends.torch.rows import rows

HOMES = (torch, F, torch.special, torch.linalg)
KNOWN = frozenset({
    # losses
    "kl_div", "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "nll_loss", "mse_loss",
    "l1_loss", "smooth_l1_loss", "huber_loss", "poisson_nll_loss", "gaussian_nll_loss", "cosine_embedding_loss",
    "margin_ranking_loss", "soft_margin_loss", "triplet_margin_loss", "hinge_embedding_loss",
    # norms and distances
    "normalize", "cosine_similarity", "pairwise_distance", "pdist", "cdist", "norm", "layer_norm", "group_norm",
    "rms_norm", "local_response_norm", "renorm", "dist",
    # elementwise
    "logit", "lgamma", "digamma", "polygamma", "mvlgamma", "erf", "erfc", "erfinv", "i0", "entr", "xlogy", "xlog1py",
    "zeta", "ndtr", "ndtri", "log_ndtr", "sinc", "addcdiv", "addcmul", "lerp", "logaddexp", "logaddexp2", "ldexp",
    "frac", "trunc", "softplus", "gelu", "silu", "mish", "elu", "selu", "celu", "leaky_relu", "hardtanh", "hardswish",
    "hardsigmoid", "relu6", "softsign", "tanhshrink", "softshrink", "threshold", "glu", "softmin", "atan", "asinh",
    "rad2deg", "float_power",
    # reductions and scans over a dimension
    "logcumsumexp", "cumsum", "cumprod", "cummax", "cummin", "diff", "nansum", "nanmean", "median", "quantile", "var",
    "std", "amax", "amin", "logsumexp", "softmax", "log_softmax", "sum", "mean", "prod", "trapezoid",
    # linear algebra
    "einsum", "tensordot", "outer", "inner", "dot", "kron", "cross", "addmm", "baddbmm", "addmv", "linear", "bilinear",
    "matmul", "bmm", "conv1d", "conv2d", "conv3d", "det", "logdet", "slogdet", "inv", "inverse", "pinv", "solve",
    "trace", "vander",
    # shape
    "diag", "diagonal", "diag_embed", "tril", "triu", "roll", "flip", "repeat_interleave", "narrow", "swapaxes",
    "movedim", "unflatten", "meshgrid", "hstack", "vstack", "ravel", "masked_select", "take", "sort", "topk",
})  # fmt: skip


def evaluate(operation: str, args: Sequence[Any], words: Mapping[str, Any]) -> Any:
    """Call the function with the name ``operation`` on NumPy arrays, and return NumPy arrays. Return None if the name
    is unknown or the arguments do not fit.
    """
    for home in HOMES if operation in KNOWN else ():
        function = getattr(home, operation, None)
        if function is None:
            continue
        try:
            with torch.no_grad():
                return _plain(function(*map(_tensor, args), **{word: _tensor(one) for word, one in words.items()}))
        except (RuntimeError, TypeError, ValueError, IndexError):
            continue
    return None


def _tensor(value: Any) -> Any:
    if isinstance(value, numpy.ndarray | numpy.generic):
        return torch.tensor(numpy.ascontiguousarray(value).reshape(numpy.shape(value)))
    return tuple(map(_tensor, value)) if isinstance(value, tuple) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        found = rows(value)
        return None if found is None else found.array()
    return tuple(map(_plain, value)) if isinstance(value, tuple) else None
