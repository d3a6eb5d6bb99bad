"""PyTorch: the adapter that the rest of backprobe talks to."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.base import Description, ModuleObserver, Options, Summary
from backprobe.backends.torch import modules, tensors
from backprobe.backends.torch.arguments import lift
from backprobe.backends.torch.tape import TorchTape

IN_PLACE = "has been modified by an inplace operation"


class TorchBackend:
    """PyTorch's ``Backend``."""

    name = "torch"

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, Tensor)

    def is_model(self, value: Any) -> bool:
        return isinstance(value, torch.nn.Module)

    def open(self, options: Options) -> TorchTape:
        return TorchTape(options)

    def lift(self, arguments: Mapping[str, Any], wrt: frozenset[str] | None) -> Mapping[str, Any]:
        return lift(arguments, wrt)

    def refusal(self, target: Any) -> tuple[str, str, str, str] | None:
        inner = list(target.modules()) if isinstance(target, torch.nn.Module) else [target]
        for part in inner:
            refused = _refused(part)
            if refused is not None:
                return refused
        return None

    def explain_error(self, error: BaseException) -> str | None:
        if IN_PLACE in str(error):
            return (
                "backprobe: the program itself overwrites a value that its backward pass needs; it fails without the "
                "probe too. Write the in-place operation as an ordinary one, u = u * 2 instead of u.mul_(2)."
            )
        return None

    def module_paths(self, model: torch.nn.Module) -> Iterable[str]:
        idle = torch.nn.Module.forward  # what a container such as ModuleList has
        return [path for path, module in model.named_modules() if type(module).forward is not idle]

    def parameters(self, model: torch.nn.Module) -> Iterable[tuple[str, Tensor]]:
        return model.named_parameters(remove_duplicate=False)

    def observing(self, model: torch.nn.Module, observer: ModuleObserver) -> Any:
        return modules.observing(model, observer)

    def describe(self, tensor: Tensor) -> Description:
        return tensors.describe(tensor)

    def summarize(self, tensor: Tensor) -> Summary | None:
        return tensors.summarize(tensor)

    def to_text(self, tensor: Tensor) -> str:
        return tensors.to_text(tensor)

    def encode(self, tensor: Tensor, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
        return tensors.encode(tensor, blobs, seen)

    def decode(self, layout: Mapping[str, Any], blobs: Mapping[str, Any]) -> Tensor:
        return tensors.decode(layout, blobs)


def _refused(part: Any) -> tuple[str, str, str, str] | None:
    """Headline, found, why, next for what these forms would get wrong."""
    kind = type(part).__name__
    compiled = getattr(part, "_compiled_call_impl", None) is not None or hasattr(part, "_torchdynamo_orig_callable")
    if kind == "OptimizedModule" or compiled:
        return (
            "a compiled model or function cannot be probed", f"{kind}, made by torch.compile",
            "its code was fixed when it was compiled; names put in now would be missed silently",
            "probe what was compiled: model._orig_mod of a compiled model, or the function before torch.compile",
        )  # fmt: skip
    if isinstance(part, torch.nn.parallel.DistributedDataParallel):
        return (
            "a DistributedDataParallel model cannot be probed in this form", kind,
            "its gradients are averaged between processes by backward(); autograd.grad gives the unreduced ones",
            "probe the model inside it: model.module, for the gradients of this process alone",
        )  # fmt: skip
    sharded = sys.modules.get("torch.distributed.fsdp")
    if sharded is not None and isinstance(part, (sharded.FSDPModule, sharded.FullyShardedDataParallel)):
        return (
            "a sharded (FSDP) model cannot be probed in this form", kind,
            "its parameters get their gradients from backward(); autograd.grad gives none",
            "probe the model before it is sharded",
        )  # fmt: skip
    return None


BACKEND = TorchBackend()
