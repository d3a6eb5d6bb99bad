"""Runs a PyTorch program again for trials, with other arguments and with other parameters of the modules that it
calls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.nn.parameter import is_lazy

from backprobe.backends.torch.arguments import lift
from backprobe.backends.torch.tensors import floating
from backprobe.backends.trials import TrialRun, Trials
from backprobe.record.containers import leaves


class TorchTrials(Trials):
    """Implements ``Trials`` for PyTorch. Its modules are all that the first run calls, even those that are not
    arguments.
    """

    def __init__(self) -> None:
        self.modules: dict[int, Module] = {}
        self.is_known = False

    def given(self, leaf: Any) -> Any:
        if isinstance(leaf, numpy.ndarray | numpy.generic) and leaf.dtype.kind in "iubfc":
            return torch.tensor(numpy.asarray(leaf))
        return torch.tensor(leaf, dtype=torch.get_default_dtype()) if isinstance(leaf, float) else leaf

    def is_varied(self, leaf: Any) -> bool:
        return isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.layout is torch.strided

    def alike(self, leaf: Any, numbers: Any) -> Any:
        return torch.tensor(numbers).reshape(leaf.shape).to(leaf.device, leaf.dtype)

    def total(self, result: Any) -> Any:
        return sum(_real(one).sum() for one in floating(result))

    def run(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TrialRun:
        positional = {str(at): value for at, value in enumerate(args)}
        with torch.enable_grad(), self._noticing():
            lifted = lift({**positional, **kwargs}, None, [])
            named = {name: value for name, value in lifted.items() if name not in positional}
            results = floating(function(*[lifted[name] for name in positional], **named))
            connected = [_real(one).sum() for one in results if one.requires_grad]
            given = [leaf for value in lifted.values() for _, leaf in leaves(value)]
            wanted = [one for one in given if isinstance(one, Tensor) and one.requires_grad] + self._parameters()
            gradients = torch.autograd.grad(connected, wanted, allow_unused=True) if connected and wanted else ()
        return TrialRun(results, [one for one in gradients if one is not None])

    def _parameters(self) -> list[Tensor]:
        every = [one for module in self.modules.values() for one in module.parameters(recurse=False)]
        return [one for one in dict.fromkeys(every) if one.requires_grad and not is_lazy(one)]

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        # The first run shows which modules the program calls.
        thread = threading.get_ident()

        def called(module: Module, _: Any) -> None:
            if threading.get_ident() == thread:
                self.modules.setdefault(id(module), module)

        if self.is_known:
            yield
            return
        handle = register_module_forward_pre_hook(called)
        try:
            yield
        finally:
            handle.remove()
            self.is_known = True


def _real(tensor: Tensor) -> Tensor:
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
