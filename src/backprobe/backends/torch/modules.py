"""Modules for the time of one call: what they return is reported, forwards are exchanged, some are refused."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.nn import Module
from torch.nn.parallel import DistributedDataParallel

from backprobe.backends.base import ModuleObserver
from backprobe.errors import Unsupported


@contextmanager
def observing(model: Module, observer: ModuleObserver) -> Iterator[None]:
    """Within this context the selected modules report; afterwards nothing of it is left."""
    thread = threading.get_ident()
    with ExitStack() as installed:
        for path, module in model.named_modules():
            if observer.wants_locals(path):
                original = module.forward
                reporting = observer.rewritten(path, original)
                if reporting is not None:
                    installed.enter_context(_exchanged(module, _only_in(thread, reporting, original)))
            if getattr(module, "inplace", False):
                handle = module.register_forward_pre_hook(_input_hook(observer, thread))
                installed.callback(handle.remove)
            if observer.wants_output(path) and isinstance(module, torch.jit.ScriptModule):
                observer.unseen(path, "it is a scripted module, which takes no hooks")
            elif observer.wants_output(path):
                handle = module.register_forward_hook(_output_hook(path, observer, thread))
                installed.callback(handle.remove)
        yield


def _output_hook(path: str, observer: ModuleObserver, thread: int) -> Callable[..., None]:
    def hook(module: Module, args: Any, output: Any) -> None:
        if threading.get_ident() == thread:
            observer.returned(path, output)

    return hook


def _input_hook(observer: ModuleObserver, thread: int) -> Callable[..., None]:
    def hook(module: Module, args: Any) -> None:
        if threading.get_ident() == thread:
            observer.writing(args)

    return hook


def _only_in(thread: int, reporting: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """An exchanged forward is for the probing thread alone."""

    def forward(*args: Any, **kwargs: Any) -> Any:
        return (reporting if threading.get_ident() == thread else original)(*args, **kwargs)

    return forward


@contextmanager
def _exchanged(module: Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Put a forward on the instance, past Module.__setattr__, and take it away again or restore the one it had."""
    attributes = module.__dict__
    had = "forward" in attributes
    before = attributes.get("forward")
    attributes["forward"] = forward
    try:
        yield
    finally:
        if had:
            attributes["forward"] = before
        else:
            del attributes["forward"]


def call_with(module: Module, forward: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a module, its hooks included, with another forward in the place of its own."""
    with _exchanged(module, _only_in(threading.get_ident(), forward, module.forward)):
        return module(*args, **kwargs)


# what these forms would get wrong

COMPILED = (
    "a compiled model or function cannot be probed",
    "its code was fixed when it was compiled; names put in now would be missed silently",
    "probe what was compiled: model._orig_mod of a compiled model, or the function before torch.compile",
)
REDUCED = (
    "a DistributedDataParallel model cannot be probed in this form",
    "its gradients are averaged between processes by backward(); autograd.grad gives the unreduced ones",
    "probe the model inside it, model.module, for the gradients of this process alone",
)
SHARDED = (
    "a sharded (FSDP) model cannot be probed in this form",
    "its parameters get their gradients from backward(); autograd.grad gives none",
    "probe the model before it is sharded",
)
WRAPPERS = (REDUCED, SHARDED)


def refuse(target: Any, asked: str, parts: tuple[tuple[str, str, str], ...] = (COMPILED, *WRAPPERS)) -> None:
    """Raise Unsupported if a function, a model or a module in it is of a refused kind."""
    for part in target.modules() if isinstance(target, Module) else [target]:
        kind = _refused_kind(part)
        if kind is not None and kind in parts:
            headline, why, next = kind
            raise Unsupported(headline, asked=asked, found=type(part).__name__, why=why, next=next)


def _refused_kind(part: Any) -> tuple[str, str, str] | None:
    if isinstance(part, Module):
        if type(part).__name__ == "OptimizedModule" or part._compiled_call_impl is not None:
            return COMPILED
        if isinstance(part, DistributedDataParallel):
            return REDUCED
        sharded = sys.modules.get("torch.distributed.fsdp")  # slow to import, and imported by whoever uses it
        if sharded is not None and isinstance(part, sharded.FSDPModule | sharded.FullyShardedDataParallel):
            return SHARDED
    elif hasattr(part, "_torchdynamo_orig_callable"):
        return COMPILED
    return None
