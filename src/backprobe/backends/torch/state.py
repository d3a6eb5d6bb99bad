"""State that a PyTorch program changes. It is saved when the program reaches it, and restored after the run."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling
from torch.nn import Module, Parameter
from torch.nn.parameter import is_lazy
from torch.nn.utils import stateless
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import register_optimizer_step_pre_hook

from backprobe.backends.held_values import held_by
from backprobe.backends.kept import Kept, assign, content_of, refill
from backprobe.backends.patching import listening
from backprobe.backends.random_states import RandomState
from backprobe.backends.replay import State
from backprobe.backends.torch.capture import memory, version
from backprobe.backends.torch.graph import all_nodes, leaves
from backprobe.backends.torch.optimizer_steps import parameters
from backprobe.backends.torch.private import is_wrapped, set_version
from backprobe.backends.torch.tensors import copied, grad_of

MODES: tuple[RandomState, ...] = (
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
)
LARGEST = 2**26  # in bytes; ``keep`` ignores a larger tensor that is given to it, unless it is a parameter
SAMPLE = 2**12  # the least number of elements that are compared in a larger contiguous tensor
CONTAINERS = (dict, list, set, deque)
KINDS = ("cpu", "cuda")  # types of device whose autocast settings are kept
Autocast = tuple[str, bool, torch.dtype]


class TorchState(State):
    """Implements ``State`` for PyTorch."""

    @cached_property
    def held(self) -> Sequence[Any]:
        found = list(super().held)
        parts = dict.fromkeys(part for one in found if isinstance(one, Module) for part in one.modules())
        return [*found, *parts, *held_by(*(value for part in parts for value in vars(part).values()))]

    def further(self) -> Iterable[Any]:
        return [hook for one in self.held for hook in _hooks_of(one)]

    def random_states(self) -> Sequence[RandomState]:
        states = [(one.get_state, one.set_state) for one in generators(self.reached)]
        return [*super().random_states(), *states, *MODES]

    @staticmethod
    def modes() -> Callable[[], AbstractContextManager[object]]:
        return partial(_in_modes, torch.is_inference_mode_enabled(), torch.is_grad_enabled(), autocasts())

    def effect(self) -> str:
        is_shared = torch.distributed.is_available() and torch.distributed.is_initialized()
        return "would make other processes wait" if is_shared else ""

    def is_known(self, value: Any) -> bool:
        return isinstance(value, Module | Tensor | Optimizer | torch.Generator) or type(value).__module__.startswith(
            "torch."
        )

    @contextmanager
    def hearing(self, kept: Kept, seed: int | None) -> Iterator[None]:
        thread = threading.get_ident()

        def steps(optimizer: Optimizer, *_: Any) -> None:
            if threading.get_ident() == thread and not torch.compiler.is_compiling():
                keep_step(optimizer, kept)

        if seed is not None:
            for generator in generators(self.reached):
                generator.manual_seed(seed)
        for one in self.reached:
            keep(one, kept)
        with ExitStack() as entered:
            entered.enter_context(listening(Module, "__call__", partial(_called, kept)))
            entered.enter_context(listening(stateless, "_reparametrize_module", partial(_exchanged, kept)))
            entered.enter_context(listening(torch.autograd, "_engine_run_backward", partial(_differentiated, kept)))
            handle = register_optimizer_step_pre_hook(steps)
            entered.callback(handle.remove)
            yield


def autocasts() -> list[Autocast]:
    """Return the current autocast settings for CPUs and for CUDA."""
    # every probe calls this function, and ``map`` is faster than a loop
    return [*zip(KINDS, map(torch.is_autocast_enabled, KINDS), map(torch.get_autocast_dtype, KINDS), strict=True)]


@contextmanager
def _in_modes(is_inferred: bool, has_history: bool, autocast: Iterable[Autocast]) -> Iterator[None]:
    with ExitStack() as entered:
        entered.enter_context(torch.inference_mode(is_inferred))
        entered.enter_context(torch.set_grad_enabled(has_history))
        for kind, is_enabled, dtype in autocast:
            entered.enter_context(torch.autocast(kind, dtype, is_enabled))
        yield


def _hooks_of(one: Any) -> Iterator[Any]:
    # Yield the functions that backward calls when it reaches a tensor, and the values of the tensor's own attributes.
    if isinstance(one, Tensor):
        for hooks in (*_hooks(one), vars(one)):
            yield from (hooks or {}).values()


def _called(kept: Kept, following: Callable[..., Any], module: Module, /, *args: Any, **kwargs: Any) -> Any:
    if (id(module), "") not in kept.known and not is_dynamo_compiling():
        keep(module, kept)
    return following(module, *args, **kwargs)


def _exchanged(kept: Kept, following: Callable[..., Any], module: Module, /, *args: Any, **kwargs: Any) -> Any:
    # ``functional_call`` is about to replace the tensors of a module by others, so the module is saved.
    keep(module, kept)
    return following(module, *args, **kwargs)


def _differentiated(kept: Kept, following: Callable[..., Any], outputs: Any, /, *args: Any, **kwargs: Any) -> Any:
    # A function that runs backward is about to be called. Backward adds to the leaves, and the program may change them
    # afterwards, so the leaves are saved now.
    if not is_dynamo_compiling():
        roots = [one for one in outputs if isinstance(one, Tensor)]
        own = [one for one in roots if one.grad_fn is None and one.is_leaf]
        for leaf in (*own, *leaves(all_nodes([one.grad_fn for one in roots if one.grad_fn is not None]))):
            keep_tensor(leaf, kept)
    return following(outputs, *args, **kwargs)


# Functions for saving state.


def keep(one: Any, kept: Kept) -> None:
    """Save what a run may change of a module with all modules inside it, an optimizer, a scheduler, a scaler, a
    parameter, or another tensor of at most ``LARGEST`` bytes.
    """
    if isinstance(one, Module):
        for part in list(one.modules()):
            keep_attributes(part, kept)
            for parameter in list(part._parameters.values()):
                if parameter is not None:
                    keep_tensor(parameter, kept)
    elif isinstance(one, Optimizer):
        if kept.is_new(one):
            for group in (*one.param_groups, one.param_groups):
                _keep_contents(group, kept)
            for leaf in parameters(one):
                keep_tensor(leaf, kept)
    elif isinstance(one, LRScheduler | torch.amp.GradScaler):
        keep_attributes(one, kept)
    elif isinstance(one, Tensor) and (isinstance(one, Parameter) or _size(one) <= LARGEST):
        keep_tensor(one, kept)


def keep_attributes(owner: Any, kept: Kept) -> None:
    """Let an object use copies of its tensors without a history, such as buffers, until it is restored.

    The tensors are replaced rather than restored by writing to them, because graphs of the program may still need them.
    """
    if not kept.is_new(owner):
        return
    own, kind = vars(owner), type(owner)
    before = dict(own)

    def put_back() -> None:
        assign(own, before)
        if type(owner) is not kind:  # a lazy module that the run has initialized
            owner.__class__ = kind

    kept.undo.append(put_back)
    for name, value in before.items():
        if isinstance(value, CONTAINERS):
            _keep_contents(value, kept)
        elif _is_exchanged(value):
            own[name] = _copy(value, kept)


def _keep_contents(container: Any, kept: Kept) -> None:
    # Have a container's contents restored later. In a dict or list, tensors without a history are replaced by copies,
    # so that the program writes to the copies.
    content = content_of(container)
    kept.undo.append(lambda: refill(container, content))
    if isinstance(container, dict):
        for key, value in content.items():
            if _is_exchanged(value):
                container[key] = _copy(value, kept)
    elif isinstance(container, list):
        container[:] = [_copy(value, kept) if _is_exchanged(value) else value for value in content]


def keep_tensor(leaf: Tensor, kept: Kept) -> None:
    """Save the numbers and hooks of a tensor, and whether a leaf requires a gradient. The program continues with a copy
    of ``.grad``.

    The history that an in-place write adds to a tensor that is not a leaf cannot be removed.
    """
    if is_wrapped(leaf) or not kept.is_new(leaf):
        return
    if is_lazy(leaf):
        kept.undo.append(partial(_made_lazy, leaf, type(leaf)))
        return
    hooks = [dict(each or {}) for each in _hooks(leaf)]
    is_leaf, is_trained, grad = leaf.is_leaf, leaf.requires_grad, grad_of(leaf)

    def put_back() -> None:
        if is_leaf and not leaf.is_leaf and not leaf._is_view():  # an in-place write gave it a history
            leaf.detach_()
        if leaf.is_leaf and leaf.requires_grad != is_trained:
            leaf.requires_grad_(is_trained)
        if grad_of(leaf) is not grad:
            leaf.grad = grad
        for now, before in zip(_hooks(leaf), hooks, strict=True):
            if now is not None:
                refill(now, before)

    kept.undo.append(put_back)
    known = kept.before.get(id(leaf))
    if known is None or not known.is_of_now():
        known = Numbers.of(leaf)
    if known is not None:
        kept.lasting[id(leaf)] = known
        kept.undo.append(known.put_back)
    if grad is not None:
        leaf.grad = copied(grad.detach())


def _hooks(tensor: Tensor) -> tuple[dict[int, Any] | None, ...]:
    return tensor._backward_hooks, tensor._post_accumulate_grad_hooks


def _made_lazy(parameter: Any, kind: type) -> None:
    # Make a lazy parameter that the run has initialized lazy again.
    if type(parameter) is not kind:
        parameter.data = parameter.data.new_empty(0)
        parameter.__class__ = kind


class Numbers:
    """The numbers of a leaf. They are restored in place if the program has written to the leaf or moved its memory."""

    def __init__(self, leaf: Tensor) -> None:
        self.leaf, self.data, self.version = leaf, leaf.data, version(leaf)
        self.copy = copied(self.data)
        self.is_stepped = False  # may an optimizer's step write to it? A fused step does not raise the version

    @classmethod
    def of(cls, leaf: Tensor) -> Numbers | None:
        """Save the numbers of a leaf. None if the leaf has no numbers or cannot be copied, or if there is no memory for
        a copy.
        """
        try:
            return None if leaf.is_meta else cls(leaf)
        except (RuntimeError, NotImplementedError):
            return None

    def is_of_now(self) -> bool:
        """Does the leaf still have the saved numbers at the same address, judging by PyTorch's version counter?"""
        return version(self.leaf) == self.version and memory(self.leaf) == memory(self.data)

    def put_back(self) -> None:
        is_moved = memory(self.leaf) != memory(self.data) or self.leaf.shape != self.data.shape
        if is_moved:
            self.leaf.data = self.data
        if is_moved or version(self.leaf) != self.version or not self._is_same():
            self.data.copy_(self.copy)
            set_version(self.leaf, self.version)  # a graph that saved the tensor compares the version

    def _is_same(self) -> bool:
        # Writes through ``.data`` do not change the version, so numbers are compared. Such writes rarely affect only
        # single elements of a large tensor, so a sample is enough.
        step = 1 if self.is_stepped or not self.data.is_contiguous() else max(1, self.data.numel() // SAMPLE)
        if step == 1:
            return torch.equal(self.data, self.copy)
        return torch.equal(self.data.view(-1)[::step], self.copy.view(-1)[::step])


def keep_step(optimizer: Optimizer, kept: Kept) -> None:
    """Save everything that a step of an optimizer changes: parameters, and the optimizer's state."""
    keep(optimizer, kept)
    if not kept.is_new(optimizer, "state"):
        return
    for leaf in parameters(optimizer):
        if id(leaf) in kept.lasting:
            kept.lasting[id(leaf)].is_stepped = True
    _keep_contents(optimizer.state, kept)
    for own in list(optimizer.state.values()):
        if isinstance(own, dict):
            _keep_contents(own, kept)


def _size(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _is_exchanged(value: Any) -> bool:
    if not isinstance(value, Tensor) or isinstance(value, Parameter) or is_lazy(value) or is_wrapped(value):
        return False
    return value.grad_fn is None and not value.requires_grad


def _copy(tensor: Tensor, kept: Kept) -> Tensor:
    # Return the copy of a tensor. If several objects hold the tensor, they get the same copy.
    if kept.is_new(tensor, "copy"):
        kept.copies[id(tensor)] = copied(tensor.detach())
    copy: Tensor = kept.copies[id(tensor)]
    return copy


def generators(held: Iterable[Any]) -> list[torch.Generator]:
    """Return PyTorch's own random generators, and the generators among the objects that a program holds. PyTorch's own
    for GPUs are left out if CUDA is not in use.
    """
    found = [torch.default_generator, *(one for one in held if isinstance(one, torch.Generator))]
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        found += torch.cuda.default_generators
    return list(dict.fromkeys(found))
