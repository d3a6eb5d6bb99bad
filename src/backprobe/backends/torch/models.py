"""Observes modules during one call: reports return values, replaces some forwards, and refuses some modules."""

from __future__ import annotations

import inspect
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, compress, repeat
from operator import and_, attrgetter, contains, eq, not_, or_
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any
from weakref import WeakSet

from torch.compiler import is_dynamo_compiling
from torch.jit import ScriptModule
from torch.nn import Module, Parameter
from torch.nn.modules import module as torch_modules
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel

from backprobe.backends import exchanging, patching
from backprobe.backends.capabilities import ModelCall, ModuleObserver
from backprobe.backends.exchanging import exchanged
from backprobe.backends.patching import Patched, original, replaced
from backprobe.backends.torch import own_calls
from backprobe.backends.torch.global_hooks import IGNORED
from backprobe.backends.torch.own_calls import OwnCalls
from backprobe.backends.torch.pipelines import NONE, schedules
from backprobe.backends.torch.private import dispatch_modes
from backprobe.backends.torch.structure import MOST_SHAPES, Shape, Structure, structure
from backprobe.backends.torch.transforms import is_traced
from backprobe.backends.torch.uncompiled import OPEN, is_uncompiled
from backprobe.errors import Unsupported
from backprobe.record.reasons import Reason
from backprobe.source.user_code import innermost

CALLED_IN = torch_modules.__file__  # the file of the module; ``Module.__call__`` may be wrapped by others
BETWEEN = frozenset({CALLED_IN, own_calls.__file__, exchanging.__file__, patching.__file__})
BASES, HOOKS, PRE_HOOKS = attrgetter("__mro__"), attrgetter("_forward_hooks"), attrgetter("_forward_pre_hooks")
MADE_FROM = "_torchdynamo_orig_callable"  # an attribute of functions that torch.compile returns


@dataclass(frozen=True)
class TorchModelCall(ModelCall):
    """Implements ``ModelCall`` for PyTorch. Forwards and parameters of the model are only replaced for the time of the
    call and its backward. Its ``requires_grad`` flags are kept.
    """

    model: Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    exchanged: list[Callable[[], None]] = field(default_factory=list, repr=False)

    @property
    def forward(self) -> Any:
        return self.model.forward

    @cached_property
    def structure(self) -> Structure:
        return structure(self.model)

    def module_paths(self) -> Iterable[str]:
        idle = Module.forward  # the forward of a container such as ModuleList, which cannot be called
        kinds = [*map(type, self.structure.modules)]
        running = {kind for kind in {*kinds} if getattr(kind, "forward", None) is not idle}
        return [*compress(self.structure.shape.paths, map(running.__contains__, kinds))]

    def forwards(self) -> Mapping[str, Any]:
        known = {module: path for path, module in reversed(self.structure.parts)}
        return {path: original(module, "forward") for module, path in reversed(known.items())}

    def kinds(self) -> Mapping[str, str]:
        return {path: type(module).__name__ for path, module in self.structure.parts}

    def parameter_paths(self) -> Iterable[str]:
        return [path for path, _ in self.structure.parameters]

    def other_paths(self) -> Mapping[str, str]:
        found = [*self.structure.parts, *self.structure.parameters]
        printed = {id(part): path for path, part in reversed(found)}
        return {path: printed[id(part)] for path, part in found if path != printed[id(part)]}

    def hidden_paths(self) -> Mapping[str, Reason]:
        kinds = {*map(type, self.structure.modules)}
        if ScriptModule not in chain.from_iterable(map(BASES, kinds)):
            return {}
        parts = self.structure.parts
        inside = tuple(path and path + "." for path, module in parts if isinstance(module, ScriptModule))
        hidden = Reason("script_module")
        return {path: hidden for path in self.module_paths() if path and path.startswith(inside)}

    def run(self, inputs: Mapping[str, Any], observer: ModuleObserver) -> Any:
        try:
            with observing(self, observer, self.exchanged):
                return self.model(*self.args, **self.kwargs)
        except BaseException:
            self._put_back()
            raise

    def finish(self, returned: Any, later: list[Callable[[], None]]) -> Any:
        if self.exchanged:
            later.append(self._put_back)
        return returned

    def look(self) -> Structure:
        """Walk the model again, because the program may have added modules."""
        vars(self).pop("structure", None)
        return self.structure

    def _put_back(self) -> None:
        for put_back in self.exchanged:
            put_back()
        self.exchanged.clear()


@dataclass(frozen=True, eq=False)
class _Chosen:
    # The parts of all models of one shape that a selection includes. Modules are given by their positions.
    outputs: Sequence[int]
    paths: Sequence[tuple[str]]  # the paths of the modules in ``outputs``, each as a tuple of one
    locals: tuple[Sequence[int], Sequence[str]]
    parameters: Sequence[tuple[int, str, str]]

    @classmethod
    def of(cls, shape: Shape, observer: ModuleObserver) -> _Chosen:
        found: _Chosen | None = observer.known.get(shape)
        if found is None:
            if len(observer.known) > MOST_SHAPES:
                observer.known.clear()
            paths = [*enumerate(shape.paths)]
            outputs = [(at, path) for at, path in paths if observer.wants_output(path)]
            locals_ = [(at, path) for at, path in paths if observer.wants_locals(path)]
            found = observer.known[shape] = cls(
                [at for at, _ in outputs],
                [(path,) for _, path in outputs],
                ([at for at, _ in locals_], [path for _, path in locals_]),
                [held for held in shape.parameters if observer.wants_parameter(held[2])],
            )
        return found


@contextmanager
def observing(
    call: TorchModelCall, observer: ModuleObserver, later: list[Callable[[], None]] | None = None
) -> Iterator[None]:
    """Report the parameters now, and the selected modules within this context. Afterwards all hooks are removed.

    If ``later`` is given, functions that restore replaced parameters are added to it. They are not restored here,
    because backward may recompute a part of the model.

    Modules are observed by global hooks instead of hooks on each module, because a TransformerEncoderLayer takes
    another path in inference if it has a hook (torch/nn/modules/transformer.py). A selected module with hooks of the
    user gets a hook of its own, but only while it runs, so that the module can be copied, saved and compiled to a
    script at any other time. This hook runs last, and therefore sees the value that the caller gets.
    """
    reporter = _Reporter(call, observer, [] if later is None else later)
    together: tuple[list[Module], list[Any]] = ([], [])
    one_by_one = [
        (module, "forward", reporting)
        for module, path in reporter.exchanged.items()
        if (reporting := observer.rewritten(path, original(module, "forward"))) is not None
        and not _joins(together, module, reporting)
    ]
    with ExitStack() as installed:
        aside = is_dynamo_compiling if reporter.schedules is NONE else reporter.is_aside
        if together[0]:
            installed.enter_context(exchanged(together[0], "forward", together[1], aside, CALLED_IN))
        if one_by_one:
            installed.enter_context(replaced(one_by_one, aside))
        if own_calls.has_own_calls(reporter.known):
            installed.enter_context(reporter.own_calls.listening(reporter.known, reporter.called))
        for module in [module for module in reporter.paths if module._forward_hooks]:
            reporter.hooked[module] = reporter.paths.pop(module)
        installed.callback(reporter.unhook_all)
        installed.callback(reporter.rest)
        reporter.listen()
        if reporter.schedules is not NONE:
            installed.enter_context(reporter.schedules.listening())
        yield


def _joins(together: tuple[list[Module], list[Any]], module: Module, reporting: Any) -> bool:
    # Can the forward of a module be replaced together with the forwards in ``together``? If so, it is added to them.
    is_bound = type(reporting) is MethodType and reporting.__self__ is module
    if is_bound and type(getattr(type(module), "forward", None)) is FunctionType:
        together[0].append(module)
        together[1].append(reporting.__func__)
        return True
    return False


class _Reporter:
    # Receives the calls of the global hooks, for the modules of one model in one thread.
    def __init__(self, call: TorchModelCall, observer: ModuleObserver, put_back: list[Callable[[], None]]) -> None:
        self.put_back = put_back
        self.call, self.observer, self.thread = call, observer, threading.get_ident()
        self.known: dict[Module, str] = {}  # the modules of this model, each by its first path
        self.foreign: WeakSet[Module] = WeakSet()  # modules that did not belong to the model when they first ran
        self.has_looked = False  # were foreign modules searched for since the model last ran?
        self.paths: dict[Module, tuple[str, ...]] = {}  # by selected module: the paths that global hooks report
        self.hooked: dict[Module, tuple[str, ...]] = {}  # those of modules that had hooks of the user at the start
        self.running: dict[Module, tuple[Any, int]] = {}  # those that run now: the handle of our hook, and the depth
        self.own_calls, self.schedules = OwnCalls(), schedules(rest=self.rest, wake=self.listen)
        self.exchanged: dict[Module, str] = {}  # modules whose forwards should report, each with its first path
        self.handles: list[Any] = []
        self.instructions, self.executed = observer.called, observer.executed
        self.look()

    def listen(self) -> None:
        self.filters: Any = vars(warnings)["filters"]
        self.filters.insert(0, IGNORED)  # not by a context, which would cost a block of a small model too much
        before = self.before_hooked if self.hooked else self.before
        self.handles += [register_module_forward_pre_hook(before), register_module_forward_hook(self.after)]

    def rest(self) -> None:
        if self.handles and IGNORED in self.filters:
            self.filters.remove(IGNORED)
        for handle in self.handles:
            handle.remove()
        self.handles.clear()

    def before_hooked(self, module: Module, args: Any) -> None:
        """Like ``before``. A module in ``hooked`` also gets our hook, until this call of it ends."""
        if is_dynamo_compiling():
            return
        paths = self.hooked.get(module)
        if paths is not None and threading.get_ident() == self.thread:
            handle, depth = self.running.get(module, (None, 0))
            handle = handle or module.register_forward_hook(partial(self.returned, paths))
            self.running[module] = handle, depth + 1
        self.before(module, args)

    def unhook(self, module: Module) -> None:
        handle, depth = self.running.pop(module)
        if depth > 1:  # the module has called itself
            self.running[module] = handle, depth - 1
        else:
            handle.remove()

    def unhook_all(self) -> None:
        """Remove the hooks of modules whose calls have raised."""
        for handle, _ in self.running.values():
            handle.remove()
        self.running.clear()

    def is_aside(self) -> bool:
        """Does the model run only for tracing its operations or inferring its shapes?"""
        return is_dynamo_compiling() or self.schedules.is_inferring

    def before(self, module: Module, args: Any) -> None:
        is_writing, is_compiled = module.__dict__.get("inplace"), type(module).__name__ == "OptimizedModule"
        if not (is_writing or is_compiled):
            return  # true for nearly all modules
        if is_dynamo_compiling() or threading.get_ident() != self.thread:
            return
        if is_compiled and not is_uncompiled():
            self._stand_aside(module)
        if is_writing:
            self.observer.writing(args)

    def after(self, module: Module, args: Any, output: Any) -> Any:
        # Dynamo traces this hook together with the code that it compiles. The hook returns early then, because Dynamo
        # would warn about code that it cannot trace, and break the graph.
        if is_dynamo_compiling() or threading.get_ident() != self.thread or (dispatch_modes() and is_traced()):
            return output
        if module.__dict__.get("inplace"):
            self.observer.written(args)
        if module is self.call.model:
            self.has_looked = False
        paths = self.paths.get(module)
        if paths is None:
            if module in self.known or (module in self.foreign and self.has_looked):
                return output
            self.foreign.add(module)
            self.has_looked = True
            self.look()
            paths = self.paths.get(module, ())
        if self.own_calls.running:
            self.own_calls.heard(module)
        if self.instructions is not None:
            frame: FrameType | None = sys._getframe(3)  # skips this function and at least two functions of PyTorch
            while frame is not None and frame.f_code.co_filename == CALLED_IN:
                frame = frame.f_back
            if frame is not None:
                for path in paths:
                    self.instructions += (path, frame.f_code, frame.f_lasti)
        for path in paths:
            self.executed.add(path)
            output = self.observer.returned(path, output)
        return output

    def called(self, module: Module, args: Any, output: Any) -> Any:
        # Called after a call of a module that bypassed the hooks.
        paths = self.hooked.get(module) or self.paths.get(module, ())
        return self.returned(paths, module, args, output)

    def exchange(self, path: str, parameter: Parameter, instead: Any) -> None:
        # Replace a parameter by another tensor, until the program has been differentiated.
        owner, _, name = path.rpartition(".")
        held: dict[str, Any] = self.call.model.get_submodule(owner)._parameters
        held[name] = instead
        self.put_back.append(partial(held.__setitem__, name, parameter))

    def look(self) -> None:
        # Walk the model, register modules that are new, and exchange their parameters where the observer asks for it.
        now, before, observer = self.call.look(), self.known, self.observer
        modules, paths = now.modules, now.shape.paths
        chosen = _Chosen.of(now.shape, observer)
        self.known = dict(zip(reversed(modules), reversed(paths), strict=True)) | before
        wanted = [one for one in chosen.parameters if modules[one[0]] not in before] if before else chosen.parameters
        names, parameters = now.held(wanted)
        instead = observer.parameters(names, parameters) if names else parameters
        for path, parameter, other in zip(names, parameters, instead, strict=True) if instead is not parameters else ():
            if other is not parameter:
                self.exchange(path, parameter, other)
        held = [*map(modules.__getitem__, now.shape.holders)]
        kinds = zip(map(paths.__getitem__, now.shape.holders), map(type, held), strict=True)
        has_usual = map(not_, map(contains, map(vars, held), repeat("forward")))
        is_new = map(not_, map(contains, repeat(before), held))
        observer.kinds.update(compress(kinds, map(and_, has_usual, is_new)))
        for module in {*compress(modules, map(HOOKS, modules)), *compress(modules, map(PRE_HOOKS, modules))}:
            if module not in before:
                observer.hooks[self.known[module]] = [*_codes(module)]
        heard = [*map(modules.__getitem__, chosen.outputs)]
        if before or len({*heard}) < len(heard):
            for module, own in zip(heard, chosen.paths, strict=True):
                if module not in before:
                    self.paths[module] = (*self.paths.get(module, ()), *own)
        else:
            self.paths.update(zip(heard, chosen.paths, strict=True))
        if not before:  # in a later walk, a forward may be running, so none is replaced
            places, reporting = chosen.locals
            asked = [*map(modules.__getitem__, places)]
            are_first = map(eq, map(self.known.__getitem__, asked), reporting)
            self.exchanged = dict(compress(zip(asked, reporting, strict=True), are_first))

    def _stand_aside(self, compiled: Module) -> None:
        # Remove the global hooks while a compiled module runs, because Dynamo would compile the module again with them.
        # Raises Unsupported if a part of the model is inside the compiled module.
        if not self.known.keys().isdisjoint(compiled.modules()):
            headline, why, _ = COMPILED
            raise Unsupported(
                headline,
                asked="a block around a model, and a call of torch.compile(model) in it",
                why=why,
                next="call model itself in the block, or write with bp.probe() as rec: for what comes after it",
            )

        def over(*_: Any) -> None:
            self.rest()
            self.listen()

        self.rest()
        self.handles.append(compiled.register_forward_hook(over, always_call=True))

    def returned(self, paths: Sequence[str], module: Module, args: Any, output: Any) -> Any:
        if module in self.running and threading.get_ident() == self.thread:
            self.unhook(module)
        if not (self.is_aside() or is_traced()) and threading.get_ident() == self.thread:
            if self.own_calls.running:
                self.own_calls.heard(module)
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename in BETWEEN:
                frame = frame.f_back
            for path in paths:
                if self.instructions is not None and frame is not None:
                    self.instructions += (path, frame.f_code, frame.f_lasti)
                self.executed.add(path)
                output = self.observer.returned(path, output)
        return output


def _codes(module: Module) -> Iterator[CodeType]:
    # Yield the code of those hooks on a module's forward that are written in Python.
    for hook in (*module._forward_pre_hooks.values(), *module._forward_hooks.values()):
        function = innermost(hook)
        if function is not None:
            yield function.__code__


# Functions for calls with replaced forwards.


def has_hooks_on_all() -> bool:
    """Are there any global hooks on the forwards of modules? Such hooks may have any effect."""
    return bool(torch_modules._global_forward_hooks or torch_modules._global_forward_pre_hooks)


def call_with(module: Module, forward: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a module and its hooks with another forward instead of its own."""
    with replaced([(module, "forward", forward)]):
        return module(*args, **kwargs)


# Modules that cannot be recorded correctly, and are therefore refused.

Refusal = tuple[str, str, str]
"""The texts of a refusal: the headline, the reason, and the code to write instead."""

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
FREE: dict[type, Any] = {}
"""Types of modules that are not refused, each with the forward that it had when it was tested."""

MOST_FREE = 4096


def refuse(
    target: Any, asked: str, kinds: Sequence[Refusal] = (COMPILED, *WRAPPERS), words: Refusal | None = None
) -> None:
    """Raise Unsupported if a function, a model or a part of one is of these kinds. ``words`` replace the message."""
    for part in _doubtful(target) if isinstance(target, Module) else [target]:
        kind = _refused_kind(part)
        if kind is not None and kind in kinds:
            headline, why, next = words or kind
            path = _path(target, part)
            if path and words is None and type(part).__name__ == "OptimizedModule":
                next = f"model.set_submodule({path!r}, model.get_submodule({path!r})._orig_mod), which was compiled"
            found = type(part).__name__ + (f" at {path!r}" if path else "")
            raise Unsupported(headline, asked=asked, found=found, why=why, next=next)


def _path(target: Any, part: Any) -> str:
    # The path of a module in a model, empty for the model itself.
    modules = target.named_modules() if isinstance(target, Module) else ()
    return next((path for path, module in modules if module is part), "")


def _doubtful(model: Module) -> list[Module]:
    # Return the modules that have a forward or compiled code of their own. Of the others, return one module of each
    # type whose present forward was not found free of refusals before.
    modules = structure(model).modules
    held = [*map(vars, modules)]
    has_forward, is_compiled = (map(contains, held, repeat(name)) for name in ("forward", "_compiled_call_impl"))
    own = [*compress(modules, map(or_, has_forward, is_compiled))]
    usual: dict[Any, Module] = {type(one): one for one in modules if one not in own} if own else {}
    usual = usual or dict(zip(map(type, modules), modules, strict=True))
    return [*[one for kind, one in usual.items() if FREE.get(kind) is not getattr(kind, "forward", None)], *own]


def _refused_kind(part: Any) -> Refusal | None:
    if not isinstance(part, Module):
        return COMPILED if is_compiled(part) else None
    found, kind = _kind_of_module(part), type(part)
    is_usual = "forward" not in vars(part) and part._compiled_call_impl is None
    if found is None and is_usual and len(FREE) < MOST_FREE and "<locals>" not in kind.__qualname__:
        FREE[kind] = getattr(kind, "forward", None)
    return found


def _kind_of_module(part: Module) -> Refusal | None:
    forward = vars(part).get("forward") or getattr(type(part), "forward", None)
    if is_compiled_module(part) or is_compiled(forward):
        return COMPILED
    if isinstance(part, DistributedDataParallel):
        return REDUCED
    sharded = sys.modules.get("torch.distributed.fsdp")  # not imported here, because that is slow
    if sharded is not None and isinstance(part, sharded.FSDPModule | sharded.FullyShardedDataParallel):
        return SHARDED
    return None


def is_compiled_module(part: Module) -> bool:
    """Does the module run compiled code: was it compiled in place, or did ``torch.compile`` return it?"""
    if OPEN and is_uncompiled():
        return False
    return part._compiled_call_impl is not None or type(part).__name__ == "OptimizedModule"


def is_compiled(function: Any) -> bool:
    """Does the function run compiled code: did ``torch.compile`` return it? Its attributes are read without running the
    user's code.
    """
    if OPEN and is_uncompiled():  # this is asked often, and a call alone would take longer
        return False
    while isinstance(function, MethodType | Patched):
        function = function.__func__ if isinstance(function, MethodType) else function.original
    if isinstance(function, FunctionType):  # true for nearly all functions, and ten times as fast as the general test
        return function.__dict__.get(MADE_FROM) is not None
    return inspect.getattr_static(function, MADE_FROM, None) is not None
