"""Modules for the time of one call: what they return is reported, forwards are exchanged, some are refused."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakSet

from torch.jit import ScriptModule
from torch.nn import Module, Parameter
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel

from backprobe.backends.capabilities import ModelCall, ModuleObserver
from backprobe.backends.patching import Patched, original, replaced
from backprobe.errors import Unsupported
from backprobe.record.reasons import Reason

MADE_FROM = "_torchdynamo_orig_callable"  # on what torch.compile returns


@dataclass(frozen=True)
class TorchModelCall(ModelCall):
    """PyTorch's ``ModelCall``: nothing of the model is altered, and the flags ``requires_grad`` stand."""

    model: Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    @property
    def forward(self) -> Any:
        return self.model.forward

    @cached_property
    def parts(self) -> list[tuple[str, Module]]:
        return parts(self.model)

    def module_paths(self) -> Iterable[str]:
        idle = Module.forward  # what a container such as ModuleList has
        return [path for path, module in self.parts if getattr(type(module), "forward", None) is not idle]

    def parameter_paths(self) -> Iterable[str]:
        return [path for path, _ in parameters(self.model, self.parts)]

    def hidden_paths(self) -> Mapping[str, Reason]:
        inside = tuple(path and path + "." for path, module in self.parts if isinstance(module, ScriptModule))
        hidden = Reason("script_module")
        return {path: hidden for path in self.module_paths() if path and path.startswith(inside)}

    def run(self, inputs: Mapping[str, Any], observer: ModuleObserver) -> Any:
        with observing(self.model, observer):
            return self.model(*self.args, **self.kwargs)


def parts(model: Module) -> list[tuple[str, Module]]:
    """``named_modules(remove_duplicate=False)``, which walks the model with a generator inside a generator."""
    if type(model).named_modules is not Module.named_modules:
        return list(model.named_modules(remove_duplicate=False))
    found: list[tuple[str, Module]] = []
    pending = [("", model)]
    while pending:
        path, module = pending.pop()
        found.append((path, module))
        for name, child in reversed([*module._modules.items()]):
            if child is not None:
                pending.append((f"{path}.{name}" if path else name, child))
    return found


def parameters(model: Module, known: Sequence[tuple[str, Module]]) -> Iterator[tuple[str, Parameter]]:
    """``named_parameters(remove_duplicate=False)``, of these parts of the model."""
    if type(model).named_parameters is not Module.named_parameters:
        yield from model.named_parameters(remove_duplicate=False)
        return
    for path, module in known:
        for name, parameter in module._parameters.items():
            if parameter is not None:
                yield f"{path}.{name}" if path else name, parameter


@contextmanager
def observing(model: Module, observer: ModuleObserver) -> Iterator[None]:
    """Parameters report now, and within this context the selected modules; afterwards nothing of it is left.

    Modules report through hooks on all modules, not on each: a TransformerEncoderLayer takes another path in inference
    where it finds a hook on itself (torch/nn/modules/transformer.py). Only a module that has the user's own hooks gets
    one of ours behind it, so that what is seen is what the caller gets.
    """
    reporter = _Reporter(model, observer)
    rewritten = [
        (module, "forward", reporting) for module, path in reporter.known.items()
        if observer.wants_locals(path)
        and (reporting := observer.rewritten(path, original(module, "forward"))) is not None
    ]  # fmt: skip
    with ExitStack() as installed:
        installed.enter_context(replaced(rewritten))
        for module in reporter.known:
            if module._forward_hooks and module in reporter.paths:
                handle = module.register_forward_hook(partial(reporter.returned, reporter.paths.pop(module)))
                installed.callback(handle.remove)
        installed.callback(reporter.rest)
        reporter.listen()
        yield


class _Reporter:
    """What the hooks on all modules call: it hears the modules of one model in one thread."""

    def __init__(self, model: Module, observer: ModuleObserver) -> None:
        self.model, self.observer, self.thread = model, observer, threading.get_ident()
        self.known: dict[Module, str] = {}  # the modules of this model, each by its first path
        self.foreign: WeakSet[Module] = WeakSet()  # those that are none of this model's
        self.paths: dict[Module, list[str]] = {}  # of the modules that are heard here
        self.handles: list[Any] = []
        self.look()

    def listen(self) -> None:
        self.handles += [register_module_forward_pre_hook(self.before), register_module_forward_hook(self.after)]

    def rest(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def before(self, module: Module, args: Any) -> None:
        if "inplace" not in vars(module) and type(module).__name__ != "OptimizedModule":
            return  # nearly all
        if type(module).__name__ == "OptimizedModule" and threading.get_ident() == self.thread:
            self._stand_aside(module)
        if vars(module).get("inplace") and threading.get_ident() == self.thread:
            self.observer.writing(args)

    def after(self, module: Module, args: Any, output: Any) -> None:
        if threading.get_ident() != self.thread:
            return
        if "inplace" in vars(module) and vars(module)["inplace"]:
            self.observer.written(args)
        if module not in self.known and module not in self.foreign:
            self.foreign.add(module)
            self.look()
        for path in self.paths.get(module, ()):
            self.observer.returned(path, output)

    def look(self) -> None:
        """Walk the model for modules that are not known: the program may have put some in since."""
        new = [(path, part) for path, part in parts(self.model) if part not in self.known]
        for path, parameter in parameters(self.model, new) if new else ():
            self.observer.parameter(path, parameter)
        for path, part in new:
            self.known.setdefault(part, path)
            if self.observer.wants_output(path):
                self.paths.setdefault(part, []).append(path)

    def _stand_aside(self, compiled: Module) -> None:
        """While a compiled module runs: hooks on all modules would have Dynamo compile it once more, with them."""
        if not self.known.keys().isdisjoint(compiled.modules()):
            headline, why, _ = COMPILED
            raise Unsupported(
                headline, asked="a block around a model, and a call of torch.compile(model) in it", why=why,
                next="call model itself in the block, or write with bp.probe() as rec: for what comes after it",
            )  # fmt: skip

        def over(*_: Any) -> None:
            self.rest()
            self.listen()

        self.rest()
        self.handles.append(compiled.register_forward_hook(over, always_call=True))

    def returned(self, paths: list[str], module: Module, args: Any, output: Any) -> None:
        if threading.get_ident() == self.thread:
            for path in paths:
                self.observer.returned(path, output)


# forwards exchanged for one call


def call_with(module: Module, forward: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a module, its hooks included, with another forward in the place of its own."""
    with replaced([(module, "forward", forward)]):
        return module(*args, **kwargs)


# what these forms would get wrong

Refusal = tuple[str, str, str]
"""Headline, reason, and what to write instead."""

COMPILED: Refusal = (
    "a compiled model or function cannot be probed",
    "its code was fixed when it was compiled; names put in now would be missed silently",
    "probe what was compiled: model._orig_mod of a compiled model, or the function before torch.compile",
)
REDUCED = (
    "a DistributedDataParallel model cannot be probed in this form",
    "its gradients are averaged between processes by backward(); autograd.grad gives the unreduced ones",
    "with bp.probe(model) as rec: around your own backward(), or model.module for this process alone",
)
SHARDED = (
    "a sharded (FSDP) model cannot be probed in this form",
    "its parameters get their gradients from backward(); autograd.grad gives none",
    "with bp.probe(model) as rec: around your own backward()",
)
WRAPPERS = (REDUCED, SHARDED)


def refuse(target: Any, asked: str, kinds: Sequence[Refusal] = (COMPILED, *WRAPPERS)) -> None:
    """Raise Unsupported if a function, a model or a module in it is of a refused kind."""
    for part in [module for _, module in parts(target)] if isinstance(target, Module) else [target]:
        kind = _refused_kind(part)
        if kind is not None and kind in kinds:
            headline, why, next = kind
            raise Unsupported(headline, asked=asked, found=type(part).__name__, why=why, next=next)


def _refused_kind(part: Any) -> Refusal | None:
    if isinstance(part, Module):
        forward = vars(part).get("forward") or getattr(type(part), "forward", None)
        if part._compiled_call_impl is not None or is_compiled(forward) or type(part).__name__ == "OptimizedModule":
            return COMPILED
        if isinstance(part, DistributedDataParallel):
            return REDUCED
        sharded = sys.modules.get("torch.distributed.fsdp")  # slow to import, and imported by whoever uses it
        if sharded is not None and isinstance(part, sharded.FSDPModule | sharded.FullyShardedDataParallel):
            return SHARDED
    elif is_compiled(part):
        return COMPILED
    return None


def is_compiled(function: Any) -> bool:
    """Did ``torch.compile`` make this? The user's objects are not asked: they may answer with code of their own."""
    while isinstance(function, MethodType | Patched):
        function = function.__func__ if isinstance(function, MethodType) else function.original
    if isinstance(function, FunctionType):  # nearly all; looking at what else there is takes ten times as long
        return function.__dict__.get(MADE_FROM) is not None
    return inspect.getattr_static(function, MADE_FROM, None) is not None
