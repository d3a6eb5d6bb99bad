"""Hessian-vector products in PyTorch: the gradients of one recording are differentiated once for each vector."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from backprobe.backends.second_order import GradientProgram, Product, Vectors, refuse_vector
from backprobe.errors import Unsupported


def hessian(program: GradientProgram) -> Product:
    """Return a function that multiplies vectors by the Hessian. It keeps one graph and reuses it. Raises Unsupported if
    a value was overwritten in place.
    """
    entries = program.entries({}, create_graph=True)
    values = {name: entry.value for name, entry in entries.items()}
    gradients = {name: entry.grad for name, entry in entries.items()}
    for name, value in values.items():
        if not value.requires_grad:
            raise Unsupported(
                f"{name!r} was overwritten in place, so nothing can be differentiated with respect to it again",
                asked=f"bp.hvp(f, {name!r}, ...)",
                found="a copy taken before the write",
                next="write the in-place operation as an ordinary one, u = u * 2 instead of u.mul_(2)",
            )

    def product(vectors: Vectors) -> Vectors:
        made = {name: as_vector(vector, gradients[name]) for name, vector in vectors.items()}
        curved = [name for name in made if gradients[name].requires_grad]
        found: list[Tensor | None] = [None] * len(made)
        if curved:
            found = [
                *torch.autograd.grad(
                    [gradients[name] for name in curved],
                    [values[name] for name in made],
                    [made[name] for name in curved],
                    allow_unused=True,
                    retain_graph=True,
                )
            ]
        return {
            name: torch.zeros_like(gradients[name]) if one is None else one
            for name, one in zip(made, found, strict=True)
        }

    return product


def as_vector(vector: Any, like: Tensor) -> Tensor:
    """Return the vector as a tensor. Raises BadOption if it does not fit ``like``."""
    try:
        made = torch.as_tensor(vector, dtype=like.dtype, device=like.device)
    except (TypeError, ValueError, RuntimeError):
        refuse_vector(vector, tuple(like.shape), None)
    if made.shape != like.shape:
        refuse_vector(vector, tuple(like.shape), tuple(made.shape))
    return made
