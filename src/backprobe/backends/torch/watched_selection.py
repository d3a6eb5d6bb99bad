"""The modules and parameters of a watched model, named as if no module was compiled."""

from __future__ import annotations

from torch.nn import Module, Parameter

from backprobe.backends.torch.dynamo import OptimizedModule
from backprobe.backends.torch.structure import structure

WRAPPED = "_orig_mod"
"""The attribute in which ``torch.compile(module)`` holds the original module. Paths are shown without it."""


def unwrapped(model: Module) -> Module:
    """Return the module that ``torch.compile(module)`` wraps. Any other module is returned unchanged."""
    return model._orig_mod if isinstance(model, OptimizedModule) else model


def watched_parts(model: Module) -> list[tuple[str, Module]]:
    """Return the modules of a model by path, as if no module was compiled."""
    return [(bare(path), part) for path, part in structure(model).parts if not isinstance(part, OptimizedModule)]


def watched_parameters(model: Module) -> list[tuple[str, Parameter]]:
    """Return the parameters of a model by path, as if no module was compiled."""
    return [(bare(path), parameter) for path, parameter in structure(model).parameters]


def bare(path: str) -> str:
    """Return a path without the wrappers of compiled modules."""
    return ".".join(key for key in path.split(".") if key != WRAPPED) if WRAPPED in path else path
