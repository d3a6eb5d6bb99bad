"""Captures of tensors while a program runs: the gradient edge, the value, and what a later write does to both.

The gradient edge of a tensor, taken when it gets its name, stays the edge of that version whatever is written later;
a kept tensor does not. Values are detached aliases, copied just before a write that is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import Node, get_gradient_edge
from torch.utils._python_dispatch import _disable_current_modes

from backprobe.backends.capabilities import Versions, Writes
from backprobe.backends.facts import Around, Backward, Effect, Options, Ran, Root
from backprobe.backends.patching import original
from backprobe.backends.protocol import Tape
from backprobe.backends.refusals import refuse_cotangent
from backprobe.backends.torch import effects, graph, models, own_modes
from backprobe.backends.torch.arguments import lift
from backprobe.backends.torch.backward_passes import BackwardCall, Passing
from backprobe.backends.torch.capture import Capture, Unfollowed, ViewWrite, gradient_edge, memory, nodes_made, version
from backprobe.backends.torch.checkpoints import IN_VAIN, in_vain, mode
from backprobe.backends.torch.columns import Columns
from backprobe.backends.torch.graph import Key, key
from backprobe.backends.torch.nonfinite_operations import Births
from backprobe.backends.torch.optimizer_steps import Steps
from backprobe.backends.torch.parameter_updates import Updates
from backprobe.backends.torch.replaced_values import TorchReplaces
from backprobe.backends.torch.strategies import Hooked, differentiate, edges, outcome
from backprobe.backends.torch.tensors import ORDINARY, Geometry, copied, describe, is_floating, is_there, same_content
from backprobe.record.entries import GradStatus
from backprobe.record.reasons import Reason

TOGETHER = Reason("versions_share_gradient")
WITHIN = Reason("written_within_function")
BEHIND_AUTOGRAD, UNSAVED = Reason("written_past_autograd"), Reason("written_past_unsaved")
UPDATED = Reason("partly_updated")
OTHER_DTYPE = Reason("view_of_other_dtype")
UNSEEN = -1  # no version of any tensor: what was written to this memory is not known
STRIDED = torch.strided
CALL = torch.nn.Module.__call__
is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
NOTHING_PASSED = Passing(False)
VERSION, UNFOLLOWED = attrgetter("_version"), attrgetter("unfollowed")


class TorchTape(TorchReplaces, Tape, Versions, Writes):
    """PyTorch's ``Tape``."""

    refused: Sequence[models.Refusal] = models.WRAPPERS  # modules that cannot be called in a program
    before_late: Callable[[], object] = staticmethod(tuple)  # see ``Late``

    def __init__(self, options: Options) -> None:
        self.options = options
        self.copies = options.values == "copy"
        self.modules: dict[torch.nn.Module, Effect] = {}  # what calling each does; one walk over it tells
        self.reporting: dict[int, torch.nn.Module] = {}  # by identity: those whose own forward says what it writes
        self.undecided: dict[Capture, Unfollowed] = {}
        self.has_subclasses = False  # is one of them of a type that may answer for itself?
        self.unplaced: list[Capture] = []
        self.by_memory: dict[int, list[Capture]] = {}  # current captures by storage
        self.known_versions: dict[int, int] = {}  # by storage of captures: the version after the last write seen
        self.pending: list[tuple[Tensor, list[Node], list[Capture]]] = []
        self.exposed: dict[Capture, None] = {}
        self.saved: set[int] = set()  # by storage: what operations saved for backward, as far as that was looked at
        self.begun = False  # was it?
        self.exposed_now: list[Capture] = []  # by the statement that is running
        self.found_overwritten: list[Capture] = []
        self.found_detached: list[Capture] = []
        self.together: list[tuple[Capture, Capture]] = []  # before and after a write while gradients are off
        self.steps = Steps()  # as far as they were seen
        self.updated: dict[Capture, None] = {}  # written behind autograd, with nothing come to them since
        self.hooked: Hooked = {}
        self.changed: dict[Key, None] = {}  # see ``TorchReplaces``
        self.passing = NOTHING_PASSED  # in a block, the passes of its program
        self.updates: Updates | None = None  # while a block is open, with ``nonfinite``
        self.hooks: list[Any] = []  # in the program's graph: in turns the dictionary that holds one, and its key

    def quiet(self) -> AbstractContextManager[Any]:
        return quiet()

    # what a tensor is

    describe = staticmethod(describe)
    is_floating = staticmethod(is_floating)
    is_compiled = staticmethod(models.is_compiled)
    version, counter = staticmethod(version), VERSION

    identity = staticmethod(id)

    ordinary, nothing = ORDINARY, torch.empty(0)
    disturbed = staticmethod(torch._C._len_torch_function_stack)

    def is_tensor(self, value: Any) -> bool:
        return issubclass(type(value), Tensor)  # not ``isinstance``, which asks the object: that may run its own code

    def versions(self, tensors: Sequence[Tensor]) -> list[int]:
        if not self.has_subclasses and not self.disturbed():
            try:
                return list(map(VERSION, tensors))
            except RuntimeError:
                pass  # an inference tensor has no version
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

    # captures

    def capture(
        self, tensor: Tensor, around: Callable[[], Around] | None, previous: Capture | None = None,
        through: bool = False,
    ) -> Capture:  # fmt: skip
        if own_modes.dispatch_modes() > own_modes.count:  # which would see a tensor being detached
            with self.quiet():
                return self.capture(tensor, around, previous, through)
        if is_wrapped(tensor):
            capture = Capture(tensor, version(tensor), None)
            capture.status, capture.why = GradStatus.OPAQUE, Reason("func_transform")
            return capture
        try:
            now = tensor._version
        except RuntimeError:  # see ``version``
            now = 0
        capture = Capture(tensor, now, tensor.detach())
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

    def decide(self, capture: Capture, around: Around) -> None:
        found = self.undecided.pop(capture)
        capture.status, capture.why = self._why_no_edge(capture, found, *around)
        if not capture.is_rare:
            return  # nearly all
        if capture.status is GradStatus.NO_GRAD and capture.in_vain is not None:
            capture.status, capture.why = GradStatus.DETACHED, IN_VAIN
        elif capture.part is None:
            capture.in_vain = None

    def _place(self) -> None:
        # Sort the captures by their memory: only where something is written does that matter.
        for capture in self.unplaced:
            place = memory(capture.tensor)
            self.by_memory.setdefault(place, []).append(capture)
            self.known_versions.setdefault(place, capture.version)
        self.unplaced.clear()

    def _written_unseen(self, tensor: Tensor) -> bool:
        # Has something that was not announced written to this tensor's memory?
        self._place()
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
        if through and tensor._is_view() and base is not None and _is_copy_slices(base):
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
        if found.requires_grad:  # as its base does, though autograd leads nothing to it
            return GradStatus.DETACHED, Reason("view_of_frozen")
        if found.mode:
            return GradStatus.FROZEN, Reason("frozen_no_grad", {"mode": found.mode})
        return GradStatus.FROZEN, Reason("frozen")

    def _is_beside(self, tensor: Tensor) -> bool:
        # Does it share its memory with a capture that has a history?
        if not self.is_floating(tensor):
            return False
        self._place()
        for one in self.by_memory.get(memory(tensor), ()):  # noqa: SIM110  # a generator is called once for each
            if one.edge is not None or one.leaf is not None:
                return True
        return False

    def late_edge(self, capture: Capture) -> None:
        """``requires_grad_()`` may have come after the name did."""
        tensor = capture.tensor
        if capture.is_followed or not tensor.requires_grad or capture.unfollowed is None:
            return
        self.before_late()
        had_none = capture.status in (
            GradStatus.FROZEN, GradStatus.DETACHED, GradStatus.NO_GRAD
        )  # fmt: skip
        if had_none and self.version(tensor) == capture.version:
            self._take_edge(capture, None, False)
            if capture.is_followed:
                capture.status, capture.why, capture.unfollowed = GradStatus.OK, None, None

    # writes

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
        self._place()
        place = memory(tensor)
        if self.known_versions.get(place, self.version(tensor)) != self.version(tensor):
            self.known_versions[place] = UNSEEN
        self.pending.append((tensor, _view_nodes(tensor), self._kept(tensor)))

    def written(self, tensor: Tensor) -> None:
        for at, (target, nodes, current) in enumerate(self.pending):
            if target is tensor:
                del self.pending[at]
                place = memory(tensor)
                if self.known_versions.get(place, UNSEEN) != UNSEEN:  # memory of no capture may be another's soon
                    self.known_versions[place] = self.version(tensor)
                self._after_write(tensor, nodes, current)
                return

    def _after_write(self, tensor: Tensor, nodes: list[Node], current: list[Capture]) -> None:
        for capture in current:
            if _is_written_past(capture):
                self._overwritten_unseen(capture)
            if capture.edge is not None and not capture.tensor.requires_grad:  # detach_()
                self.found_detached.append(capture)
                self.has_found = True
        base = tensor._base
        if nodes and base is not None and _is_copy_slices(base):
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
        """Only what the running statement took a handle of is looked at: the rest, when the program is over."""
        self.look_at_exposed()
        if self.together and torch.is_grad_enabled():
            self._look_at_together()
        found, self.found_overwritten = self.found_overwritten, []
        self.has_found = bool(self.found_detached or self.together)
        return found

    def _look_at_together(self) -> None:
        # The writes were those of a function with its own backward if its result, ``mark_dirty``, is their tensor now.
        for previous, capture in self.together:
            edge = gradient_edge(capture.tensor)
            if edge is not None and capture.edge is not None and key(edge) != key(capture.edge):
                previous.opaque = None if previous.opaque is TOGETHER else previous.opaque
                capture.opaque = WITHIN
        self.together.clear()

    def look_at_exposed(self) -> None:
        for capture in self.exposed_now:
            if not capture.opaque and _is_written_past(capture):
                self._overwritten_unseen(capture)
        self.exposed_now.clear()

    def _overwritten_unseen(self, capture: Capture) -> None:
        capture.opaque = BEHIND_AUTOGRAD
        self.found_overwritten.append(capture)
        self.has_found = True

    def look_at_saved(self, roots: Sequence[Node]) -> None:
        """Backward begins here: a write out of sight makes gradients wrong where an operation has saved the value."""
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
        # The captures whose value lies in this tensor's memory now; they keep it, whatever is written.
        self._place()
        held = self.by_memory.get(memory(tensor), [])
        held[:] = [capture for capture in held if self.version(capture.tensor) == capture.version]
        for capture in held:
            if capture.snapshot is None and capture.alias is not None:
                capture.snapshot = copied(capture.alias)
        return list(held)

    # what acts while the program runs: strategies, and the block form

    def _lead_around(self, write: ViewWrite) -> None:
        """Part of a capture's gradient will pass around it at this write."""

    def _attach(self, capture: Capture) -> None:
        tensor = capture.tensor
        if self.options.strategy == "retain_grad" and not tensor.is_leaf:
            tensor.retain_grad()
        elif self.options.strategy == "hooks":
            handle = tensor.register_hook(partial(self.hooked.__setitem__, capture))  # type: ignore[no-untyped-call]  # it has no type
            self.hooks += (handle.hooks_dict_ref(), handle.id)

    # forward and backward

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
        passes = [self._passed(root, ran.captures, keeps or root is not last) for root in ran.roots]
        return ran.result, passes

    def _passed(self, root: Root, captures: Sequence[Capture], keeps: bool) -> Backward:
        # Run backward once.
        if self.exposed and isinstance(root.output, Tensor) and root.output.grad_fn is not None:
            self.look_at_saved([root.output.grad_fn])
        births = Births(self.quiet) if self.options.nonfinite else None
        if births is not None:
            births.listen_to_one_pass(root.output)
            self.keep_hooks(births)
        options = replace(self.options, retain_graph=keeps)
        passed = differentiate(options, self.hooked, root.output, root.cotangent, captures)
        return passed if births is None else births.added_to(passed, captures)

    def keep_hooks(self, births: Births) -> None:
        """These hooks are taken off when the recording is over."""
        for handle in births.handles:
            self.hooks += (handle.hooks_dict_ref(), handle.id)

    start = 0  # the engine's count of nodes when the program began
    freed: Sequence[BackwardCall] = ()  # by the program's own calls that were seen
    passed: Passing | None = None  # in those calls

    def unfinished(self, captures: Sequence[Capture]) -> Backward:
        recorded = graph.by_edge(captures)
        missing = GradStatus.BACKWARD_NOT_RUN, Reason("backward_unfinished"), None
        found = [outcome(c, None, edges(graph.inputs(c.edge, recorded)), False, missing) for c in captures]
        return Backward(found, ())

    def settle(self, captures: Sequence[Capture]) -> Columns:
        """The program is over: what can be known only now."""
        for capture in self.exposed:
            if capture not in self.updated and not capture.opaque and _is_written_past(capture):
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
        """Keep no tensor, hook or node any longer."""
        hooks = iter(self.hooks)
        for held, at in zip(hooks, hooks, strict=True):  # as ``handle.remove()`` does, which takes five times as long
            if held is not None:
                held.pop(at, None)
        self.steps = Steps()
        for held in vars(self).values():
            if isinstance(held, dict | list):
                held.clear()
        vars(self).pop("before_late", None)  # which leads to the trace, and that leads back here


def quiet() -> AbstractContextManager[Any]:
    """Within this context no mode of the program, such as one that counts operations, sees what backprobe does."""
    if own_modes.dispatch_modes() > own_modes.count:
        return _no_modes()
    return torch._C.DisableTorchFunction()  # type: ignore[no-any-return]  # has no stub


@contextmanager
def _no_modes() -> Iterator[None]:
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        yield


@lru_cache
def _not_floating(kind: torch.dtype) -> tuple[GradStatus, Reason]:
    return GradStatus.NOT_FLOAT, Reason("dtype", {"dtype": str(kind).removeprefix("torch.")})


def _mode() -> str:
    # The mode that switches gradients off, empty where they are on.
    return "" if torch.is_grad_enabled() else mode()


def _is_copy_slices(base: Tensor) -> bool:
    return base.grad_fn is not None and base.grad_fn.name().endswith("CopySlices")


def _view_nodes(tensor: Tensor) -> list[Node]:
    # The nodes of a view and of the views between it and its base: those that a write through it goes around.
    base = tensor._base if tensor._is_view() else None
    if base is None or not tensor.requires_grad or tensor.grad_fn is None:
        return []
    nodes: list[Node] = []
    node: Node | None = tensor.grad_fn
    while node is not None and node is not base.grad_fn and len(nodes) < 64:
        nodes.append(node)
        node = node.next_functions[0][0] if node.next_functions else None
    return nodes


def _is_written_past(capture: Capture) -> bool:
    # Has it other contents than it had, and the same version? What is freed is not changed.
    if version(capture.tensor) != capture.version or capture.snapshot is None or capture.alias is None:
        return False
    return is_there(capture.alias) and not same_content(capture.alias, capture.snapshot)


def _is_exchanged(capture: Capture) -> bool:
    # Does the tensor lie elsewhere than when it was captured? Subclasses may keep no memory of their own.
    tensor, alias = capture.tensor, capture.alias
    if type(tensor) is not Tensor or alias is None or tensor.layout is not torch.strided or tensor.is_nested:
        return False
    return bool(tensor.untyped_storage()._cdata != alias.untyped_storage()._cdata)
