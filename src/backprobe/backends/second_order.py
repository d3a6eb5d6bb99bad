"""Second derivatives in a framework: products of vectors with the Hessian of a program that a probe differentiates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Protocol

from backprobe.errors import BadOption
from backprobe.record.brief import kind, written
from backprobe.record.entries import Entry

Vectors = Mapping[str, Any]
"""Tensors by the name of a value. Each tensor has the shape of the value with this name."""

Product = Callable[[Vectors], Vectors]
"""Maps vectors, given for some of the values, to the Hessian's product with them, for the same values. The vectors of
all other values are 0.
"""


class GradientProgram(Protocol):
    """A program, some of the values in it, and a scalar output."""

    @property
    def variables(self) -> Mapping[str, Any]:
        """The values that are differentiated directly, by name. Nothing is added to them."""

    def entries(self, shifts: Vectors, *, create_graph: bool = False) -> Mapping[str, Entry]:
        """Run the program with ``shifts`` added to some of the values, and return the entries of the values, by
        name.
        """


def refuse_vector(vector: Any, shape: tuple[int, ...], found: tuple[int, ...] | None) -> NoReturn:
    """Raise BadOption for a vector whose shape differs from the shape of its value. ``found`` is None if the vector is
    not a tensor.
    """
    if found is None:
        raise BadOption(
            "the vector is neither a tensor nor numbers",
            asked=f"bp.hvp(f, name, {written(vector)})",
            found=kind(vector),
            next=f"a vector of shape {shape}",
        )
    raise BadOption(
        "the vector has another shape than the value",
        asked=f"a vector of shape {found}",
        found=f"a value of shape {shape}",
        next=f"a vector of shape {shape}",
    )
