"""Replacements for operations that cut the graph, with which gradients flow: data for ``Backend.edits``."""

from __future__ import annotations

EDITS = {
    ".item()": ("{0}",),
    ".tolist()": ("{0}",),
    "builtins.float": ("{1}",),
    "jax.lax.stop_gradient": ("{1}",),
    "numpy.array": ("{1}", "jax.numpy.stack"),
    "numpy.asarray": ("{1}", "jax.numpy.stack"),
    "math.*": ("jax.numpy.*",),
    "numpy.*": ("jax.numpy.*",),
}
