"""The modules and parameters of a model that is watched, as if none of it was compiled."""

from __future__ import annotations

from torch.nn import Module, Parameter

from backprobe.backends.torch.dynamo import OptimizedModule
from backprobe.backends.torch.structure import structure

WRAPPED = "_orig_mod"
"""What ``torch.compile(module)`` calls the module that it wraps: no name shows it."""


def unwrapped(model: Module) -> Module:
    """The module that ``torch.compile(module)`` wraps; any other is itself."""
    return model._orig_mod if isinstance(model, OptimizedModule) else model


def watched_parts(model: Module) -> list[tuple[str, Module]]:
    """The modules of a model by their paths, as if none was compiled."""
    return [(bare(path), part) for path, part in structure(model).parts if not isinstance(part, OptimizedModule)]


def watched_parameters(model: Module) -> list[tuple[str, Parameter]]:
    """Its parameters by their paths, as if none was compiled."""
    return [(bare(path), parameter) for path, parameter in structure(model).parameters]


def bare(path: str) -> str:
    """A path without what wraps a compiled module."""
    return ".".join(key for key in path.split(".") if key != WRAPPED) if WRAPPED in path else path
