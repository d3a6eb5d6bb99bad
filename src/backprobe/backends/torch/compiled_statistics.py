"""Statistics inside compiled code, as a part of its graph, merged into tensors that outlive the call.

Dynamo traces the hook on all modules together with the code that it compiles. While it is traced, the hook looks up
which rows are wanted (``CompiledStatistics.place``) and puts ``measure`` into the graph. In the forward pass
``measure`` merges the statistics of a tensor into a row, and a tensor hook does the same for its gradient in the
backward pass. The tensor itself is not replaced, so in-place writes and views work as before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from backprobe.backends.torch.compiled_rows import CompiledRows, Kept, merge
from backprobe.backends.torch.tensors import is_floating
from backprobe.record.names import quote

NONE = -1  # no row is wanted
Places = tuple[int, int]
"""The places of the rows for a value and for its gradient."""


compiler: Any = torch.compiler  # ``Any``, because the functions of torch.compiler have no types


class CompiledStatistics:
    """The rows of one model. ``wanted`` maps the id of a module, and a path in its result, to the places of the
    rows.
    """

    def __init__(self, is_known: Callable[[int], bool], wanted: Callable[[int, str], Places]) -> None:
        self.values, self.gradients = CompiledRows(), CompiledRows()

        def place(module: int, keys: tuple[str, ...], device: str) -> Places:
            places = wanted(module, "".join(f".{quote(key)}" for key in keys))
            for at, rows in zip(places, (self.values, self.gradients), strict=True):
                if at != NONE:
                    rows.make(at, device)
            return places

        # these functions run during tracing, and are not part of the graph
        self.knows: Callable[[int], bool] = compiler.assume_constant_result(lambda module: is_known(module))
        self.place: Callable[[int, tuple[str, ...], str], Places] = compiler.assume_constant_result(place)


# The following functions are traced by Dynamo, so they use only plain code that Dynamo can trace line by line.


def heard(statistics: CompiledStatistics, module: Module, output: Any, keys: tuple[str, ...] = ()) -> None:
    """Put the wanted statistics of the tensors in a module's result into the graph."""
    if isinstance(output, Tensor):
        is_read = output.is_floating_point() or output.is_complex()
        if is_read and (type(output) is Tensor or type(output) is Parameter):
            value, gradient = statistics.place(id(module), keys, str(output.device))
            if value != NONE or gradient != NONE:
                measure(
                    output,
                    None if value == NONE else getattr(statistics.values, f"row{value}"),
                    None if gradient == NONE else _row_of_gradient(statistics.gradients, gradient, output),
                )
    elif isinstance(output, tuple | list):
        for number, item in enumerate(output):
            heard(statistics, module, item, (*keys, str(number)))
    elif isinstance(output, dict):
        for key, item in output.items():
            heard(statistics, module, item, (*keys, str(key)))


def _row_of_gradient(rows: CompiledRows, place: int, tensor: Tensor) -> Tensor | Kept:
    return (rows.name, place) if tensor.is_cpu else getattr(rows, f"row{place}")


# Functions whose operations become part of the compiled graph.


def measure(tensor: Tensor, value: Tensor | None, gradient: Tensor | Kept | None) -> None:
    """Merge the statistics of a tensor into a row, and those of its gradient into another row when the gradient
    arrives.
    """
    if not is_floating(tensor) or not tensor.numel():
        return
    if value is not None:
        merge(value, tensor)
    if gradient is not None and tensor.requires_grad:
        hooked: Any = tensor
        hooked.register_hook(lambda numbers: merge(gradient, numbers))


compiler.allow_in_graph(measure)  # as one operation, into which Dynamo does not look
