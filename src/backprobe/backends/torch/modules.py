"""The model form: modules that report what they return, and forwards exchanged for reporting ones, for one call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch.nn import Module

from backprobe.backends.base import ModuleObserver


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
            if observer.wants_output(path):
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
