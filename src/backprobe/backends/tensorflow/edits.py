"""Replacements for operations that cut the graph, with which gradients flow: data for ``Backend.edits``."""

from __future__ import annotations

EDITS = {
    ".numpy()": ("{0}",),
    ".item()": ("{0}",),
    ".tolist()": ("{0}",),
    "builtins.float": ("{1}",),
    "tensorflow.stop_gradient": ("{1}",),
    "tensorflow.Variable": ("{1}",),
    "tensorflow.constant": ("{1}", "tensorflow.stack"),
    "keras.ops.stop_gradient": ("{1}",),
    "numpy.array": ("{1}", "tensorflow.stack"),
    "numpy.asarray": ("{1}", "tensorflow.stack"),
    "math.*": ("tensorflow.math.*", "tensorflow.*"),
    "numpy.*": ("tensorflow.math.*", "tensorflow.*"),
}
