"""Names of operations, attributes and libraries, by their effect on a gradient."""

from __future__ import annotations

import builtins
import re

SHAPES = frozenset(
    {
        "shape",
        "dtype",
        "device",
        "ndim",
        "requires_grad",
        "grad_fn",
        "is_leaf",
        "layout",
        "itemsize",
        "names",
        "grad",
        "size",
        "dim",
        "numel",
        "nelement",
        "len",
        "isinstance",
        "type",
        "id",
        "hasattr",
        "zeros_like",
        "ones_like",
        "empty_like",
        "rand_like",
        "randn_like",
        "new_zeros",
        "new_ones",
        "new_empty",
        "print",
        "is_tensor",
        "stride",
        "data_ptr",
        "is_floating_point",
        "is_complex",
        "rank",
        "result_type",
        "get_device",
        "shape_as_list",
        "repr",
        "str",
        "randint_like",
        "is_same_size",
        "is_contiguous",
        "element_size",
        "nbytes",
        "is_cuda",
        "storage_offset",
    }
)
"""Attributes and functions of a value that do not depend on its numbers, or only display them."""

BY_KIND = {
    "detach": ("detach", "detach_"),
    "stop_gradient": ("stop_gradient",),
    "data": ("data",),
    "number": ("item", "tolist", "float", "int", "bool", "complex"),
    "numpy": ("numpy", "array", "asarray", "__array__", "from_numpy", "numpy_function"),
    "copied": ("tensor", "new_tensor", "Tensor", "FloatTensor", "deepcopy"),
    "parameter": ("Parameter", "Variable"),
    "index": (
        "argmax",
        "argmin",
        "argsort",
        "nonzero",
        "digitize",
        "argpartition",
        "argwhere",
        "flatnonzero",
        "lexsort",
        "searchsorted",
        "bucketize",
        "one_hot",
        "where_indices",
        "indices",
    ),
    "count": ("count_nonzero", "bincount"),
    "comparison": (
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "isnan",
        "isinf",
        "isfinite",
        "equal",
        "isclose",
        "allclose",
        "greater",
        "less",
        "logical_not",
    ),
    "sample": ("sample", "normal", "bernoulli", "poisson", "categorical", "multinomial"),
    "checkpoint": ("checkpoint", "checkpoint_sequential"),
    "differentiated": ("gradient", "batch_jacobian"),
}
CUTTERS = {name: kind for kind, names in BY_KIND.items() for name in names}
"""The kind of use for operations that may lose the derivative, or take one, by the last part of their names."""
WHOLE_SAMPLES = frozenset({"multinomial", "bernoulli", "poisson", "categorical"})
"""Functions whose random results are integers, whatever the dtype of the result."""
MAPPING = frozenset({"map", "tree_map", "map_structure", "vectorized_map", "map_fn"})
"""Functions that apply a given function to each item of their other arguments."""
TRANSFORMING = frozenset(
    {
        "vmap",
        "jit",
        "pmap",
        "checkpoint",
        "remat",
        "vectorize",
        "filter_jit",
        "filter_vmap",
        "filter_checkpoint",
        "function",
        "compile",
        "partial",
    }
)
"""Functions that return a version of a given function which runs the same code."""
OWN_METHODS = frozenset({"detach", "detach_", "item", "tolist", "numpy", "data"})
"""Names that cut if they are a method or attribute of the tensor. An argument of such a method is not cut."""

POSITIONS = frozenset(
    {"sort", "topk", "top_k", "approx_max_k", "kthvalue", "mode", "median", "max", "min", "cummax", "cummin"}
)
"""Functions that return values first and then their positions."""
STEPS = frozenset({"round", "rint", "floor", "ceil", "trunc", "fix", "sign", "heaviside", "floordiv"})
"""Step functions. Their derivative is 0, as in PyTorch, or missing, as in TensorFlow."""

ASSIGNING = frozenset(
    {
        "assign",
        "assign_add",
        "assign_sub",
        "scatter_update",
        "scatter_nd_update",
        "scatter_nd_add",
        "scatter_nd_sub",
        "batch_scatter_update",
    }
)
"""Methods of TensorFlow Variables that write their argument to the variable."""
NUMPY = ("np", "numpy", "scipy")
"""Names of libraries whose functions convert tensors to arrays without a gradient."""

OTHER_DTYPE = {
    "float": "",
    "complex": "",
    "int": "integer",
    "bool": "integer",
    "long": "integer",
    "short": "integer",
    "byte": "integer",
    "char": "integer",
}
"""Methods that convert a tensor to another dtype. Python's functions with the same names return a plain number."""

CASTS = frozenset({"to", "type", "astype", "cast", "asarray", "as_tensor", "view"})
JOINING = frozenset({"asarray", "as_tensor"})
"""Functions that keep the history of a single tensor. In PyTorch they copy the numbers of tensors in a container."""
LIKE_ARGUMENT = frozenset({"to", "type", "type_as", "view", "view_as", "expand_as", "reshape_as"})
"""Methods that use only the dtype, device or shape of their argument."""
WITHOUT_HISTORY = frozenset({"detach", "data", "stop_gradient"})
"""Kinds of use whose result is still a tensor. If a later operation of ``WITHOUT_DERIVATIVE`` uses this tensor, the
later operation is reported as the cut, because its result could have no history in any case.
"""
WITHOUT_DERIVATIVE = frozenset(
    {"number", "numpy", "copied", "parameter", "index", "comparison", "count", "integer", "sample"}
)
INTEGER = re.compile(r"\b(?:u?int\d*|long|short|bool|bool_|byte|LongTensor|IntTensor|BoolTensor)\b")


OF_CONTAINERS = frozenset({*dir(dict), *dir(list), *dir(tuple), "_asdict", "_replace"})
"""Methods of containers, which concern every leaf of the container."""
LIBRARY = SHAPES | CASTS | CUTTERS.keys() | OTHER_DTYPE.keys() | frozenset(dir(builtins))
"""Names of known functions and methods. A call of one is not a call of an unrecorded object, such as a model."""
MODULES = ("torch", "nn", "F", "np", "numpy", "tf", "tensorflow", "keras", "jnp", "jax", "math", "random")
"""Names of libraries in expressions."""
