"""Memory in PyTorch: hooks on saved tensors count what is kept for backward, and graph walks find what outlives its
step.
"""

from __future__ import annotations

import bisect
import gc
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node, saved_tensors_hooks
from torch.compiler import is_dynamo_compiling
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.overrides import TorchFunctionMode

from backprobe.backends.memory import Alive, KeptObject, MeasuredMemory, MemoryHearing, StepBytes, StorageBytes
from backprobe.backends.torch.dynamo import leave_alone
from backprobe.backends.torch.global_hooks import without_warning_of_hooks
from backprobe.backends.torch.graph import all_nodes
from backprobe.backends.torch.optimizer_steps import parameters
from backprobe.backends.torch.private import nodes_made
from backprobe.backends.torch.watched_selection import unwrapped
from backprobe.backends.user_lines import source_at, users_line
from backprobe.record.source import Source

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Packed:
    """A tensor that is kept for backward. It counts until the graph releases it."""

    __slots__ = ("counts", "node", "place", "tensor", "version")

    def __init__(self, tensor: Tensor, counts: StorageBytes, node: int) -> None:
        # not the tensor itself: if it is the operation's own result, the two would keep each other alive
        self.tensor, self.version, self.counts, self.node = tensor.detach(), tensor._version, counts, node
        self.place, size = _storage(tensor)
        counts.add(self.place, size)

    def unpacked(self) -> Tensor:
        """Return the tensor. Raises RuntimeError, as PyTorch does, if it was written to."""
        if self.tensor._version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"a tensor of shape {tuple(self.tensor.shape)} is at version {self.tensor._version}; expected version "
                f"{self.version} instead"
            )
        return self.tensor

    def __del__(self) -> None:
        self.counts.remove(self.place)


class CalledOperation(TorchFunctionMode):
    """Stores the name of the PyTorch function that is running. It is empty if none is running."""

    name = ""

    @leave_alone
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before, self.name = self.name, getattr(function, "__name__", type(function).__name__)
        try:
            return function(*args, **(kwargs or {}))
        finally:
            self.name = before


class TorchMemory(MemoryHearing):
    """Implements ``MemoryHearing`` for PyTorch."""

    def __init__(self, model: Module | None) -> None:
        modules = {} if model is None else {id(one): path for path, one in unwrapped(model).named_modules()}
        self.model, self.paths = model, modules
        self.counts, self.operations, self.thread = StorageBytes(), CalledOperation(), threading.get_ident()
        self.listening = ExitStack()
        self.cuda: Any = torch.cuda
        self.stack: list[Module] = []
        self.optimizers: dict[int, Optimizer] = {}
        self.bounds: list[int] = []  # the engine's count of nodes at the start of the block, and after each step
        self.lines: list[tuple[int, Source | None]] = []  # the count of nodes when a tensor was saved, and the line
        self.bytes = StepBytes()
        self.hooks: list[int] = []  # the number of hooks after each step
        self.zeroed: dict[int, tuple[int, Source | None]] = {}
        # ids of optimizers that had a gradient which was not set to zero in place when a step saved its first tensor
        self.other: set[int] = set()
        self.handles: list[Any] = []
        self.ended = self.step

    # Methods for observing the program.

    def open(self) -> None:
        self.bounds = [nodes_made()]
        if self.cuda.is_initialized():
            self.cuda.reset_peak_memory_stats()
        self.listening.enter_context(without_warning_of_hooks())
        self.handles = [
            register_module_forward_pre_hook(self._entered),
            register_module_forward_hook(self._left, always_call=True),
            register_optimizer_step_post_hook(self._stepped),
        ]
        # a call of compiled code saves its tensors while Dynamo compiles what runs
        disabled: Any = torch.compiler.disable
        self.ended = disabled(self.step)
        self.listening.enter_context(saved_tensors_hooks(disabled(self._pack), disabled(Packed.unpacked)))
        self.listening.enter_context(self.operations)

    def close(self) -> None:
        self.bytes.end()
        self.listening.close()
        for handle in self.handles:
            handle.remove()

    @leave_alone
    def _entered(self, module: Module, *_: Any) -> None:
        # Dynamo traces hooks, and cannot trace the second condition
        if not is_dynamo_compiling() and threading.get_ident() == self.thread:
            self.stack.append(module)

    @leave_alone
    def _left(self, module: Module, *_: Any) -> None:
        if is_dynamo_compiling() or threading.get_ident() != self.thread:
            return
        if self.stack and self.stack[-1] is module:
            self.stack.pop()

    @leave_alone
    def _stepped(self, optimizer: Optimizer, *_: Any) -> None:
        if not is_dynamo_compiling():
            self.optimizers[id(optimizer)] = optimizer
            self.ended()

    def step(self) -> None:
        if self.bounds[-1] == nodes_made():
            return  # another optimizer has already ended this step
        self.bytes.end()
        self.bounds.append(nodes_made())
        self.hooks.append(sum(len(hooks) for hooks in self._hooks()))
        self.line = users_line(sys._getframe(1))
        if self.after_step is not None:
            self.after_step(len(self.bounds) - 1)

    line: Source | None = None
    """The last line that ended a step."""

    def _pack(self, tensor: Tensor) -> Any:
        if not self.bytes.now:
            self._look_at_gradients()
        made = nodes_made()
        source = users_line(sys._getframe(1))
        self.lines.append((made, source))
        place, size = (0, 0) if _is_parameter(tensor) else _storage(tensor)
        if place:
            self.bytes.add((source, self._module(), self.operations.name), place, size)
        return Packed(tensor, self.counts if place else StorageBytes(), made)

    def _module(self) -> str:
        if not self.stack:
            return ""
        module = unwrapped(self.stack[-1])  # a compiled model by its own class
        return self.paths.get(id(module)) or type(module).__name__

    def _look_at_gradients(self) -> None:
        # Look at the gradients when the first tensor of a step is saved. If the program sets them to zero before each
        # step, instead of to None, their memory is never freed.
        for at, optimizer in self.optimizers.items():
            every = [own.grad for own in parameters(optimizer) if own.grad is not None]
            if all(gradient._version and not gradient.count_nonzero() for gradient in every):
                size = sum(gradient.untyped_storage().nbytes() for gradient in every)
                self.zeroed |= {at: (size, self.line)} if every else {}
            else:
                self.other.add(at)

    def _hooks(self) -> Iterator[dict[Any, Any]]:
        known = {id(one): one for one in (self.model.modules() if self.model is not None else ())}
        if not known:
            known = {id(one): one for one in gc.get_objects() if issubclass(type(one), Module)}
        for module in known.values():
            yield from (vars(module)[name] for name in HOOKS if vars(module).get(name))

    # Methods for computing the results.

    def measured(self) -> MeasuredMemory:
        on_device = self.cuda.max_memory_allocated() if self.cuda.is_initialized() else None
        return MeasuredMemory(
            len(self.bounds) - 1,
            self.bytes.saved(),
            self.counts.most,
            on_device,
            self._alive(),
            [*self._kept_hooks(), *self._kept_gradients()],
        )

    def _alive(self) -> list[Alive]:
        # Return tensors whose graphs reach nodes of earlier steps.
        if len(self.bounds) < 4:  # with fewer than three steps nothing grows
            return []
        tensors = [one for one in gc.get_objects() if issubclass(type(one), Tensor)]
        found: list[tuple[Alive, set[Node]]] = []
        carried: list[tuple[Alive, set[Node]]] = []
        for tensor in tensors:
            node = tensor.grad_fn
            if node is None:
                continue
            made = node._sequence_nr()
            step = self._step_of(made)
            if step is None:
                continue
            steps, size, nodes = self._reached(tensor, node)
            if steps:
                one = Alive(tensor, frozenset(steps), size, step not in steps, self._line(made))
                (carried if one.is_carried else found).append((one, nodes - {node}))
        # of the carried tensors, keep those from which the others are computed
        first = [one for one, below in carried if not any(other.held.grad_fn in below for other, _ in carried)]
        return [*(one for one, _ in found), *first]

    def _step_of(self, made: int) -> int | None:
        # Return the step in which the node with this sequence number was created. None if that was before the block, or
        # if the node belongs to a leaf, because such nodes all have one very large number.
        at = bisect.bisect_right(self.bounds, made) - 1
        return at if at >= 0 and made < 2**62 else None

    def _reached(self, tensor: Tensor, made_by: Node) -> tuple[set[int], int, set[Node]]:
        # Return the earlier steps to which a tensor's graph leads, the bytes that it keeps of these steps and of the
        # tensor, and its nodes.
        last = len(self.bounds) - 2  # the last step before the end of the block
        steps: set[int] = set()
        places: dict[int, int] = {}
        nodes = all_nodes([made_by])
        for node in nodes:
            step = self._step_of(node._sequence_nr())
            if step is not None and step < last:
                steps.add(step)
                places |= _storages(node)
        if steps:
            places |= dict([_storage(tensor)])
        return steps, sum(places.values()), {*nodes}

    def _line(self, made: int) -> Source | None:
        # Return the line of a node: the one at which a tensor was saved when the node, or one directly before or after
        # it, was created; None if none was saved then.
        at = bisect.bisect_left(self.lines, made, key=lambda one: one[0])
        near = [one for one in self.lines[max(at - 1, 0) : at + 2] if abs(one[0] - made) <= 1]
        return near[-1][1] if near else None

    def _kept_hooks(self) -> list[KeptObject]:
        # Return the hooks as one object, named after the last of them, if their number has grown in each step.
        grown = [after - before for before, after in zip(self.hooks, self.hooks[1:], strict=False)]
        if len(grown) < 2 or min(grown) < 1:
            return []
        newest = [hook for hooks in self._hooks() for hook in hooks.values()][-1]
        code = getattr(newest, "__code__", None)
        source = None if code is None else source_at(code.co_filename, code.co_firstlineno)
        name = getattr(newest, "__qualname__", type(newest).__name__)
        return [KeptObject("hooks", name, self.hooks[-1], 0, source)]

    def _kept_gradients(self) -> list[KeptObject]:
        return [
            KeptObject("gradients", type(self.optimizers[at]).__name__, 1, size, line)
            for at, (size, line) in self.zeroed.items()
            if at not in self.other
        ]


def _is_parameter(tensor: Tensor) -> bool:
    # Is the tensor a leaf that requires a gradient, such as a parameter, or a view of one? Its memory exists anyway.
    base = tensor if tensor._base is None else tensor._base
    return base.is_leaf and base.requires_grad


def _storage(tensor: Tensor) -> tuple[int, int]:
    # Return the address and size of the tensor's memory; both are 0 if it has none, for example while a program is
    # compiled.
    try:
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.nbytes()
    except (RuntimeError, NotImplementedError):
        return 0, 0


def _storages(node: Node) -> dict[int, int]:
    # Return the bytes of the storages that a node keeps, by address, except those of parameters and those freed.
    found: dict[int, int] = {}
    for name in dir(node):
        if name.startswith("_saved_") or name == "saved_tensors":
            for tensor in _tensors(node, name):
                if not _is_parameter(tensor):
                    found |= dict([_storage(tensor)])
    return found


def _tensors(node: Node, name: str) -> Sequence[Tensor]:
    try:
        held = getattr(node, name)
    except RuntimeError:  # the saved tensor was freed
        return ()
    every = held if isinstance(held, tuple | list) else (held,)
    return [one for one in every if isinstance(one, Tensor)]
