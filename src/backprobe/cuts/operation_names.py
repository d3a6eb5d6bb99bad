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
"""Attributes and functions that tell of a value only what does not depend on its numbers, or show it to people."""

CUTTERS = {
    "detach": "detach",
    "detach_": "detach",
    "stop_gradient": "stop_gradient",
    "data": "data",
    "item": "number",
    "tolist": "number",
    "float": "number",
    "int": "number",
    "bool": "number",
    "complex": "number",
    "numpy": "numpy",
    "array": "numpy",
    "asarray": "numpy",
    "__array__": "numpy",
    "from_numpy": "numpy",
    "numpy_function": "numpy",
    "tensor": "copied",
    "new_tensor": "copied",
    "Tensor": "copied",
    "FloatTensor": "copied",
    "Parameter": "parameter",
    "Variable": "parameter",
    "deepcopy": "copied",
    "argmax": "index",
    "argmin": "index",
    "argsort": "index",
    "nonzero": "index",
    "digitize": "index",
    "argpartition": "index",
    "argwhere": "index",
    "flatnonzero": "index",
    "lexsort": "index",
    "count_nonzero": "count",
    "bincount": "count",
    "searchsorted": "index",
    "bucketize": "index",
    "one_hot": "index",
    "where_indices": "index",
    "indices": "index",
    "eq": "comparison",
    "ne": "comparison",
    "lt": "comparison",
    "le": "comparison",
    "gt": "comparison",
    "ge": "comparison",
    "isnan": "comparison",
    "isinf": "comparison",
    "isfinite": "comparison",
    "equal": "comparison",
    "isclose": "comparison",
    "allclose": "comparison",
    "greater": "comparison",
    "less": "comparison",
    "logical_not": "comparison",
    "sample": "sample",
    "normal": "sample",
    "bernoulli": "sample",
    "poisson": "sample",
    "categorical": "sample",
    "multinomial": "sample",
    "checkpoint": "checkpoint",
    "checkpoint_sequential": "checkpoint",
    "gradient": "differentiated",
    "batch_jacobian": "differentiated",
}
"""What a value is lost in, by the last part of the name of a function, method or attribute."""
WHOLE_SAMPLES = frozenset({"multinomial", "bernoulli", "poisson", "categorical"})
"""Functions that draw whole numbers, whatever the dtype that these are given."""
MAPPING = frozenset({"map", "tree_map", "map_structure", "vectorized_map", "map_fn"})
"""Functions that call a given function with each item of the arguments after it."""
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
"""Transformations of a function that leave its result unchanged."""
OWN_METHODS = frozenset({"detach", "detach_", "item", "tolist", "numpy", "data"})
"""Those that are methods or attributes of the value itself. If another object has a method of such a name, its
arguments are another matter.
"""

POSITIONS = frozenset(
    {"sort", "topk", "top_k", "approx_max_k", "kthvalue", "mode", "median", "max", "min", "cummax", "cummin"}
)
"""Functions that give values first and then their positions."""
STEPS = frozenset({"round", "rint", "floor", "ceil", "trunc", "fix", "sign", "heaviside", "floordiv"})
"""Functions that are flat between their steps. PyTorch gives a derivative of 0, the others have none there."""

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
"""Methods of TensorFlow's Variables that write their argument."""
NUMPY = ("np", "numpy", "scipy")
"""What the libraries are called whose functions take numbers out of a tensor and give arrays."""

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
"""Methods that make a tensor of another dtype. Python's own functions of some of these names make a number."""

CASTS = frozenset({"to", "type", "astype", "cast", "asarray", "as_tensor", "view"})
JOINING = frozenset({"asarray", "as_tensor"})
"""Those that keep the history of one tensor, and in PyTorch copy the numbers of those in a container."""
LIKE_ARGUMENT = frozenset({"to", "type", "type_as", "view", "view_as", "expand_as", "reshape_as"})
"""Methods that give the tensor that they belong to, with the dtype, device or shape of their argument."""
WITHOUT_HISTORY = frozenset({"detach", "data", "stop_gradient"})
"""What returns a tensor without history. Another cutter may then make something from it that could have none anyway."""
WITHOUT_DERIVATIVE = frozenset(
    {"number", "numpy", "copied", "parameter", "index", "comparison", "count", "integer", "sample"}
)
INTEGER = re.compile(r"\b(?:u?int\d*|long|short|bool|bool_|byte|LongTensor|IntTensor|BoolTensor)\b")


OF_CONTAINERS = frozenset({*dir(dict), *dir(list), *dir(tuple), "_asdict", "_replace"})
"""Methods of containers, which have to do with each of their leaves."""
LIBRARY = SHAPES | CASTS | CUTTERS.keys() | OTHER_DTYPE.keys() | frozenset(dir(builtins))
"""Names of functions and methods that give nothing with a history of its own."""
MODULES = ("torch", "nn", "F", "np", "numpy", "tf", "tensorflow", "keras", "jnp", "jax", "math", "random")
"""The names of libraries whose functions and settings appear in expressions."""
