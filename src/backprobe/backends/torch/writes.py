"""Writes into tensors that have names: the tensors that a call will write to, and the effect of a write on captures.

A value is copied just before a write that is observed. It is also copied when the program gets a way to write to it
unobserved, such as a NumPy array on its memory. Such writes are found by comparing the value with its copy.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node, get_gradient_edge

from backprobe.backends.capabilities import Versions, Writes
from backprobe.backends.facts import Effect
from backprobe.backends.patching import original
from backprobe.backends.torch import effects, graph, models
from backprobe.backends.torch.capture import Capture, ViewWrite, gradient_edge, memories, memory, version
from backprobe.backends.torch.graph import key
from backprobe.backends.torch.tensors import Geometry, copied, is_there, same_content
from backprobe.record.reasons import Reason

TOGETHER, WITHIN = Reason("versions_share_gradient"), Reason("written_within_function")
BEHIND_AUTOGRAD, UNSAVED = Reason("written_past_autograd"), Reason("written_past_unsaved")
OTHER_DTYPE = Reason("view_of_other_dtype")
UNSEEN = -1  # used instead of a version if it is unknown what was written
CALL, TENSOR = torch.nn.Module.__call__, attrgetter("tensor")


class TorchWrites(Versions, Writes):
    """Implements ``Writes`` for PyTorch, and finds the tensors that calls write to."""

    refused: Sequence[models.Refusal] = models.WRAPPERS  # kinds of modules that a probed program must not call

    def __init__(self) -> None:
        self.modules: dict[torch.nn.Module, Effect] = {}  # the effect of calling each module and its submodules
        self.reporting: dict[int, torch.nn.Module] = {}  # by id: modules whose own forward reports its writes
        self.unplaced: list[Capture] = []  # captures that are not in ``by_memory`` yet
        self.by_memory: dict[int, list[Capture]] = {}  # current captures by storage
        self.known_versions: dict[int, int] = {}  # by storage of captures: the version after the last observed write
        # writes that have not ended: the tensor, the nodes that the write bypasses, and the captures in its memory
        self.pending: list[tuple[Tensor, list[Node], list[Capture]]] = []
        self.exposed: dict[Capture, None] = {}  # captures that may be written to without notice
        self.exposed_now: list[Capture] = []  # captures that the running statement has exposed
        self.saved: set[int] = set()  # storages that operations saved for backward, as far as examined
        self.begun = False  # were the saved tensors examined?
        self.found_overwritten: list[Capture] = []
        self.found_detached: list[Capture] = []
        self.together: list[tuple[Capture, Capture]] = []  # (before, after) a write while gradients are off

    @abstractmethod
    def quiet(self) -> AbstractContextManager[Any]:
        """See ``Tape``."""

    def effect(self, function: Any, flagged: bool) -> Effect:
        if id(function) in self.reporting and not (function._forward_hooks or function._forward_pre_hooks):
            return Effect.READS
        if isinstance(function, torch.nn.Module):
            if function not in self.modules:
                if self.refused:
                    asked = f"{type(function).__name__}(...) inside a probed function"
                    models.refuse(function, asked, kinds=self.refused)
                self.modules.update(effects.effects_of(function))
            return self.modules[function]
        return effects.effect(function, flagged)

    def reports(self, owner: Any) -> None:
        if type(owner).__call__ is CALL and not models.has_hooks_on_all():
            self.reporting[id(owner)] = owner

    def called(self, function: Any, modules_too: bool) -> tuple[Any, Callable[..., Any]] | None:
        if not (modules_too and isinstance(function, torch.nn.Module)):
            return None
        return original(function, "forward"), partial(models.call_with, function)

    def targets(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        found = effects.targets(function, args, kwargs, self.modules)
        if getattr(function, "__name__", "") in effects.EXPOSING:
            with self.quiet():
                for tensor in found:
                    self.expose(tensor)
            return []
        return found

    def writing(self, tensor: Tensor) -> None:
        self.place()
        place = memory(tensor)
        if self.known_versions.get(place, self.version(tensor)) != self.version(tensor):
            self.known_versions[place] = UNSEEN
        self.pending.append((tensor, _view_nodes(tensor), self._kept(tensor)))

    def written(self, tensor: Tensor) -> None:
        for at, (target, nodes, current) in enumerate(self.pending):
            if target is tensor:
                del self.pending[at]
                place = memory(tensor)
                # Without captures, the memory may be freed and reused by another tensor, so its version is not stored.
                if self.known_versions.get(place, UNSEEN) != UNSEEN:
                    self.known_versions[place] = self.version(tensor)
                self._after_write(tensor, nodes, current)
                return

    def _after_write(self, tensor: Tensor, nodes: list[Node], current: list[Capture]) -> None:
        for capture in current:
            if is_written_past(capture):
                self._overwritten_unseen(capture)
            if capture.edge is not None and not capture.tensor.requires_grad:  # true after ``detach_()``
                self.found_detached.append(capture)
                self.has_found = True
        base = tensor._base
        if nodes and base is not None and is_copy_slices(base):
            write = ViewWrite(get_gradient_edge(base).node, Geometry.of(tensor, base))
            for capture in current:
                if capture.edge is not None and capture.geometry is None and capture.edge.node in nodes:
                    capture.writes = (*capture.writes, write)
                    self._lead_around(write)
                    if capture.tensor.dtype != base.dtype or tensor.dtype != base.dtype:
                        capture.opaque = OTHER_DTYPE

    def expose(self, tensor: Tensor) -> None:
        captures = self._kept(tensor)
        self.exposed |= dict.fromkeys(captures)
        self.exposed_now += captures
        self.has_found = True

    def overwritten(self) -> Sequence[Capture]:
        """Return the captures that were found since the last call to be changed by a write that autograd did not see.
        Of the exposed captures, only those that the running statement has exposed are examined now. The others are
        examined at the end of the program.
        """
        self.look_at_exposed()
        if self.together and torch.is_grad_enabled():
            self._look_at_together()
        found, self.found_overwritten = self.found_overwritten, []
        self.has_found = bool(self.found_detached or self.together)
        return found

    def _look_at_together(self) -> None:
        # If a custom function has written to its argument and marked it with ``mark_dirty``, the tensor is now the
        # function's result. Then the writes belong to the function.
        for previous, capture in self.together:
            edge = gradient_edge(capture.tensor)
            if edge is not None and capture.edge is not None and key(edge) != key(capture.edge):
                previous.opaque = None if previous.opaque is TOGETHER else previous.opaque
                capture.opaque = WITHIN
        self.together.clear()

    def look_at_exposed(self) -> None:
        for capture in self.exposed_now:
            if not capture.opaque and is_written_past(capture):
                self._overwritten_unseen(capture)
        self.exposed_now.clear()

    def _overwritten_unseen(self, capture: Capture) -> None:
        capture.opaque = BEHIND_AUTOGRAD
        self.found_overwritten.append(capture)
        self.has_found = True

    def look_at_saved(self, roots: Sequence[Node]) -> None:
        """Examine captures that were written to without notice, because backward is about to start. If an operation has
        saved such a value, gradients are wrong.
        """
        written = [one for one in self.exposed if one.leaf is None and one.edge is not None]
        if written:
            self.saved |= {*map(memory, graph.saved(roots))}
            self.begun = True
        for one in written:
            if one.opaque in (BEHIND_AUTOGRAD, UNSAVED):
                one.opaque = self._why_behind(one)

    def _why_behind(self, capture: Capture) -> Reason:
        return UNSAVED if self.begun and memory(capture.tensor) not in self.saved else BEHIND_AUTOGRAD

    def detached(self) -> Sequence[Capture]:
        found, self.found_detached = self.found_detached, []
        return found

    def _kept(self, tensor: Tensor) -> list[Capture]:
        # Return the captures whose current value is in this tensor's memory. Before that, copy their values, because a
        # write is about to change the memory.
        self.place()
        held = self.by_memory.get(memory(tensor), [])
        held[:] = [capture for capture in held if self.version(capture.tensor) == capture.version]
        for capture in held:
            if capture.snapshot is None and capture.alias is not None:
                capture.snapshot = copied(capture.alias)
        return list(held)

    def place(self) -> None:
        # Sort the captures by their memory. This is delayed until it is needed, for example for a write.
        if not self.unplaced:
            return
        for place, capture in zip(memories([*map(TENSOR, self.unplaced)]), self.unplaced, strict=True):
            held = self.by_memory.get(place)
            if held is None:
                self.by_memory[place] = [capture]
                self.known_versions.setdefault(place, capture.version)
            else:
                held.append(capture)
        self.unplaced.clear()

    def _lead_around(self, write: ViewWrite) -> None:
        """Called when part of a capture's gradient will bypass the capture because of this write."""


def is_copy_slices(base: Tensor) -> bool:
    """Was a view of this tensor written to, and did autograd record the write?"""
    return base.grad_fn is not None and base.grad_fn.name().endswith("CopySlices")


def _view_nodes(tensor: Tensor) -> list[Node]:
    # Return the nodes of a view and of the views between it and its base. A write through the view bypasses these
    # nodes.
    base = tensor._base if tensor._is_view() else None
    if base is None or not tensor.requires_grad or tensor.grad_fn is None:
        return []
    nodes: list[Node] = []
    node: Node | None = tensor.grad_fn
    while node is not None and node is not base.grad_fn and len(nodes) < 64:
        nodes.append(node)
        node = node.next_functions[0][0] if node.next_functions else None
    return nodes


def is_written_past(capture: Capture) -> bool:
    """Does the captured tensor have other contents than its copy, although its version is unchanged? False if it has no
    copy, or if its memory was freed.
    """
    if version(capture.tensor) != capture.version or capture.snapshot is None or capture.alias is None:
        return False
    return is_there(capture.alias) and not same_content(capture.alias, capture.snapshot)
