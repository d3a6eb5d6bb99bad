"""Captures tensors while a program runs: the gradient edge, the value, and what later writes do to both.

The gradient edge of a tensor, taken when it is named, stays the edge of that version, even if the program writes to the
tensor later. Keeping the tensor itself would not be enough. Values are detached aliases, copied just before an observed
write, or at once with ``values="copy"``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from itertools import compress, repeat
from operator import attrgetter, call
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from backprobe.backends.exchanging import exhaust
from backprobe.backends.facts import Around, Backward, Options, Ran, Root
from backprobe.backends.protocol import Tape
from backprobe.backends.refusals import refuse_cotangent
from backprobe.backends.torch import graph, models, own_modes
from backprobe.backends.torch.arguments import lift
from backprobe.backends.torch.backward_call import BackwardCall
from backprobe.backends.torch.backward_passes import Passing
from backprobe.backends.torch.capture import Capture, Unfollowed, gradient_edge, memory, version
from backprobe.backends.torch.checkpoints import IN_VAIN, in_vain, mode
from backprobe.backends.torch.columns import Columns
from backprobe.backends.torch.custom_functions import NOTHING_GIVEN, unasked
from backprobe.backends.torch.graph import Key, key
from backprobe.backends.torch.nonfinite_operations import Births
from backprobe.backends.torch.optimizer_steps import Steps
from backprobe.backends.torch.parameter_updates import Updates
from backprobe.backends.torch.private import (
    DisableFuncTorch,
    DisableTorchFunction,
    disable_current_modes,
    function_modes,
    is_wrapped,
    nodes_made,
)
from backprobe.backends.torch.replaced_values import TorchReplaces
from backprobe.backends.torch.strategies import Hooked, differentiate, edges, outcome
from backprobe.backends.torch.tensors import ORDINARY, Geometry, copied, describe, is_floating, opened
from backprobe.backends.torch.writes import OTHER_DTYPE, TOGETHER, TorchWrites, is_copy_slices, is_written_past
from backprobe.record.entries import GradStatus
from backprobe.record.reasons import Reason

UPDATED = Reason("partly_updated")
NOTHING_PASSED = Passing(False)
CONTAINERS = frozenset({dict, list})
POP = attrgetter("pop")
VERSION, UNFOLLOWED = attrgetter("_version"), attrgetter("unfollowed")


class TorchTape(TorchReplaces, TorchWrites, Tape):
    """Implements ``Tape`` for PyTorch."""

    before_late: Callable[[], object] = staticmethod(tuple)  # called before a capture may get a history late

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.copies = options.values == "copy"
        self.undecided: dict[Capture, Unfollowed] = {}
        self.has_subclasses = False  # does a captured tensor have a type that may define its own behaviour?
        self.steps = Steps()  # calls of step() that were observed
        # Captures that were written to without autograd's notice, and at which no gradient has arrived since.
        self.updated: dict[Capture, None] = {}
        self.hooked: Hooked = {}
        self.changed: dict[Key, None] = {}  # by edge: gradients that ``TorchReplaces`` has changed
        self.passing = NOTHING_PASSED  # the backward passes that the program runs in a block
        self.updates: Updates | None = None  # set while a block is open, with the options ``nonfinite`` and ``updates``
        # The hooks that the tape removes at the end. Each hook has two items: the dictionary that holds the hook, and
        # the hook's key.
        self.hooks: list[Any] = []

    def quiet(self) -> AbstractContextManager[Any]:
        return quiet()

    # Methods for tensors.

    describe = staticmethod(describe)
    is_floating = staticmethod(is_floating)
    is_compiled = staticmethod(models.is_compiled)
    version, counter = staticmethod(version), VERSION

    identity = staticmethod(id)

    ordinary = ORDINARY
    opened = staticmethod(opened)
    disturbed = staticmethod(function_modes)

    def is_tensor(self, value: Any) -> bool:
        return issubclass(type(value), Tensor)  # ``isinstance`` reads ``__class__``, which may run the object's code

    def versions(self, tensors: Sequence[Tensor]) -> list[int]:
        if not self.has_subclasses and not self.disturbed():
            try:
                return list(map(VERSION, tensors))
            except RuntimeError:
                pass  # inference tensors have no version
        with self.quiet():
            return list(map(version, tensors))

    def is_differentiated(self, value: Any) -> bool:
        if not isinstance(value, Tensor) or not value.requires_grad:
            return False
        return value.grad_fn is not None or gradient_edge(value) is not None

    def cotangent(self, output: Tensor, cotangent: Any) -> Tensor:
        try:
            return torch.as_tensor(cotangent, dtype=output.dtype, device=output.device)
        except (TypeError, ValueError, RuntimeError) as error:
            refuse_cotangent(cotangent, f"torch.ones({tuple(output.shape)})", error)

    # Methods for captures.

    def capture(
        self,
        tensor: Tensor,
        around: Callable[[], Around] | None,
        previous: Capture | None = None,
        through: bool = False,
    ) -> Capture:
        if own_modes.dispatch_modes() > own_modes.count:  # other modes would observe ``detach``
            with self.quiet():
                return self.capture(tensor, around, previous, through)
        if is_wrapped(tensor):
            capture = Capture(tensor, version(tensor), None)
            capture.status, capture.why = GradStatus.OPAQUE, Reason("func_transform")
            return capture
        try:
            now = tensor._version
        except RuntimeError:  # an inference tensor has no version
            now = 0
        alias = tensor.detach()
        if is_wrapped(alias):  # a transform of torch.func returned a tensor without memory
            with DisableFuncTorch():
                alias = tensor.detach()
        capture = Capture(tensor, now, alias)
        capture.calls = self.passing.begun
        if self.copies:
            capture.snapshot = copied(capture.alias)  # type: ignore[arg-type]  # a capture that is written has its alias
        if tensor.requires_grad:
            self._take_edge(capture, previous, through)
        if capture.edge is None and capture.leaf is None:
            self._note_without_history(capture)
        if type(tensor) not in self.ordinary:
            self.has_subclasses = True
        self.unplaced.append(capture)
        if self.updates is not None:
            self.updates.look(None)
            self.updates.newest = capture
        return capture

    def _note_without_history(self, capture: Capture) -> None:
        tensor = capture.tensor
        found = Unfollowed(_mode(), tensor.requires_grad, self._is_beside(tensor))
        capture.unfollowed = self.undecided[capture] = found
        if found.mode:
            capture.in_vain = in_vain()
            if (line := unasked()) is not None:
                capture.unasked = line

    def decide(self, capture: Capture, around: Around) -> None:
        found = self.undecided.pop(capture)
        capture.status, capture.why = self._why_no_edge(capture, found, *around)
        if not capture.is_rare:
            return  # true for nearly all captures
        if capture.status is GradStatus.NO_GRAD and capture.in_vain is not None:
            capture.status, capture.why = GradStatus.DETACHED, IN_VAIN
        elif capture.part is None:
            capture.in_vain = None
        if capture.unasked is not None:
            if capture.status is GradStatus.NO_GRAD:
                capture.status, capture.why = GradStatus.DETACHED, NOTHING_GIVEN
            else:
                capture.unasked = None

    def _written_unseen(self, tensor: Tensor) -> bool:
        # Was this tensor's memory written to without a report to this tape?
        self.place()
        return self.known_versions.get(memory(tensor)) != self.version(tensor)

    def _take_edge(self, capture: Capture, previous: Capture | None, through: bool) -> None:
        tensor = capture.tensor
        if previous is None and not through:
            capture.edge = gradient_edge(tensor)
            if capture.edge is not None:
                self._attach(capture)
            return
        base = tensor._base
        if previous is not None and tensor._is_view() and self._written_unseen(tensor):
            previous.opaque = capture.opaque = Reason("view_written_unseen")
        if through and tensor._is_view() and base is not None and is_copy_slices(base):
            capture.edge = get_gradient_edge(base)
            capture.geometry = Geometry.of(tensor, base)
            if tensor.dtype != base.dtype:
                capture.opaque = OTHER_DTYPE
        else:
            capture.edge = gradient_edge(tensor)
        if capture.edge is None:
            return
        if previous is not None and previous.edge is not None and key(previous.edge) == key(capture.edge):
            previous.opaque = capture.opaque = TOGETHER
            self.found_overwritten += [previous, capture]
            self.has_found = True
            if not torch.is_grad_enabled():
                self.together.append((previous, capture))
        self._attach(capture)

    def _why_no_edge(
        self, capture: Capture, found: Unfollowed, reads: Sequence[Capture], unrecorded: bool
    ) -> tuple[GradStatus, Reason]:
        assert capture.alias is not None
        if not self.is_floating(capture.alias):
            return _not_floating(capture.alias.dtype)
        if self.passing.has_returned(capture.tensor):
            return GradStatus.DETACHED, Reason("is_gradient")
        sources = unrecorded or found.is_beside or any(read.is_followed for read in reads)
        cut = [read for read in reads if read.status in (GradStatus.DETACHED, GradStatus.NO_GRAD)]
        if sources and found.mode:
            return GradStatus.NO_GRAD, Reason("no_grad", {"mode": found.mode})
        if sources:
            return GradStatus.DETACHED, Reason("no_history")
        if cut:
            return cut[0].status, Reason("inherited", {"status": str(cut[0].status)})
        if found.requires_grad:  # its base requires a gradient, but autograd passes none to this view
            return GradStatus.DETACHED, Reason("view_of_frozen")
        if found.mode:
            return GradStatus.FROZEN, Reason("frozen_no_grad", {"mode": found.mode})
        return GradStatus.FROZEN, Reason("frozen")

    def _is_beside(self, tensor: Tensor) -> bool:
        # Does the tensor share memory with a capture that has a history?
        if not self.is_floating(tensor):
            return False
        self.place()
        for one in self.by_memory.get(memory(tensor), ()):  # noqa: SIM110  # a generator is called once for each
            if one.edge is not None or one.leaf is not None:
                return True
        return False

    def late_edge(self, capture: Capture) -> None:
        """Take the edge of a tensor that got its history after it was named, for example by ``requires_grad_()``."""
        tensor = capture.tensor
        if capture.is_followed or not tensor.requires_grad or capture.unfollowed is None:
            return
        self.before_late()
        had_none = capture.status in (GradStatus.FROZEN, GradStatus.DETACHED, GradStatus.NO_GRAD)
        if had_none and self.version(tensor) == capture.version:
            self._take_edge(capture, None, False)
            if capture.is_followed:
                capture.status, capture.why, capture.unfollowed = GradStatus.OK, None, None

    # Methods that subclasses for strategies and for the block form override.

    def _attach(self, capture: Capture) -> None:
        tensor = capture.tensor
        if self.options.strategy == "retain_grad" and not tensor.is_leaf:
            tensor.retain_grad()
        elif self.options.strategy == "hooks":
            handle = tensor.register_hook(partial(self.hooked.__setitem__, capture))  # type: ignore[no-untyped-call]  # it has no type
            self.hooks += (handle.hooks_dict_ref(), handle.id)

    # Methods for the forward and backward pass.

    def run(
        self,
        program: Callable[[Mapping[str, Any]], Ran],
        inputs: Mapping[str, Any],
        wrt: frozenset[str] | None,
        undo: list[Callable[[], None]],
    ) -> tuple[Any, Sequence[Backward]]:
        self.start = start = nodes_made()
        ran = program(lift(inputs, wrt, undo))
        with self.quiet():
            self.settle(ran.captures)
        if not self.options.backward:
            return ran.result, [self.unfinished(ran.captures)]
        self.mark_changed(ran.captures)
        keeps = self.options.retain_graph or any(graph.is_older(root.output, start) for root in ran.roots)
        last = ran.roots[-1]
        passes = [self._passed(root, ran.captures, keeps or root is not last, ran.flow) for root in ran.roots]
        return ran.result, passes

    def _passed(
        self, root: Root, captures: Sequence[Capture], keeps: bool, flow: Callable[[int, Any], Any] | None = None
    ) -> Backward:
        # Run one backward pass, and return its results.
        if self.exposed and isinstance(root.output, Tensor) and root.output.grad_fn is not None:
            self.look_at_saved([root.output.grad_fn])
        births = Births(self.quiet) if self.options.nonfinite else None
        if births is not None:
            births.listen_to_one_pass(root.output)
            self.keep_hooks(births.handles)
        options = replace(self.options, retain_graph=keeps)
        passed = differentiate(options, self.hooked, root.output, root.cotangent, captures, flow)
        return passed if births is None else births.added_to(passed, captures)

    def keep_hooks(self, handles: Iterable[Any]) -> None:
        """Store these hooks, which are removed when the recording is over."""
        for handle in handles:
            self.hooks += (handle.hooks_dict_ref(), handle.id)

    start = 0  # the engine's count of nodes when the program started
    freed: Sequence[BackwardCall] = ()  # the program's calls that have freed their graph
    passed: Passing | None = None  # the gradients that the program's calls brought

    def unfinished(self, captures: Sequence[Capture]) -> Backward:
        recorded = graph.by_edge(captures)
        missing = GradStatus.BACKWARD_NOT_RUN, Reason("backward_unfinished"), None
        found = [outcome(c, None, edges(graph.inputs(c.edge, recorded)), False, missing) for c in captures]
        return Backward(found, ())

    def settle(self, captures: Sequence[Capture]) -> Columns:
        """The program is over: determine what could not be determined earlier."""
        for capture in self.exposed:
            if capture not in self.updated and not capture.opaque and is_written_past(capture):
                capture.opaque = self._why_behind(capture)
        for capture in filter(UNFOLLOWED, captures):
            if capture.tensor.requires_grad:
                self.late_edge(capture)
        columns = Columns.of(captures)
        for capture in columns.moved():
            if not capture.tensor.is_leaf and _is_exchanged(capture):
                capture.opaque = Reason("data_replaced")
        return columns

    def release(self) -> None:
        """Release all tensors, hooks and nodes."""
        # This does the same as ``handle.remove()`` on each hook, but is many times faster. A dictionary that no longer
        # exists is None.
        there = [*map(bool, self.hooks[::2])]
        held, keys = compress(self.hooks[::2], there), compress(self.hooks[1::2], there)
        exhaust(map(call, map(POP, held), keys, repeat(None)))
        self.steps = Steps()
        own = [*vars(self).values()]
        for container in compress(own, map(CONTAINERS.__contains__, map(type, own))):
            container.clear()
        vars(self).pop("before_late", None)  # it refers to the trace, which refers to this tape


def quiet() -> AbstractContextManager[Any]:
    """Inside this context no mode of the program, such as one that counts operations, sees what backprobe does."""
    if own_modes.dispatch_modes() > own_modes.count:
        return _no_modes()
    return DisableTorchFunction()  # type: ignore[no-any-return]  # has no stub


@contextmanager
def _no_modes() -> Iterator[None]:
    with disable_current_modes(), DisableTorchFunction():
        yield


@lru_cache
def _not_floating(kind: torch.dtype) -> tuple[GradStatus, Reason]:
    return GradStatus.NOT_FLOAT, Reason("dtype", {"dtype": str(kind).removeprefix("torch.")})


def _mode() -> str:
    # Return the mode that switches gradients off; an empty text if gradients are on.
    return "" if torch.is_grad_enabled() else mode()


def _is_exchanged(capture: Capture) -> bool:
    # Does the tensor now have another storage than when it was captured? Subclasses are not checked, because they may
    # have no memory of their own.
    tensor, alias = capture.tensor, capture.alias
    if type(tensor) is not Tensor or alias is None or tensor.layout is not torch.strided or tensor.is_nested:
        return False
    return bool(tensor.untyped_storage()._cdata != alias.untyped_storage()._cdata)
