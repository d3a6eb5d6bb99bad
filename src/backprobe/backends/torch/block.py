"""The tape of the block form: collects gradients in the program's own calls of ``backward()`` and ``autograd.grad``.

A hook at each captured edge records the gradient that arrives there. If the user has hooks on the tensor, it is the
gradient after they have run: see ``EdgeHooks``. Leaves have hooks of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache, partial
from operator import attrgetter
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from backprobe.backends.capabilities import AtEnd, Late, Recompute
from backprobe.backends.facts import Backward, Options, Root
from backprobe.backends.random_states import put_back
from backprobe.backends.torch import graph
from backprobe.backends.torch.backward_call import CALLS, BackwardCall
from backprobe.backends.torch.backward_passes import MOST_OUTPUTS, Passing
from backprobe.backends.torch.block_captures import BlockCaptures
from backprobe.backends.torch.block_outcomes import AROUND, with_history
from backprobe.backends.torch.capture import Capture, ViewWrite, gradient_edge, with_edges
from backprobe.backends.torch.checkpoints import computing_again, in_vain, to_compute_again
from backprobe.backends.torch.gradient_hooks import put_hook
from backprobe.backends.torch.graph import key
from backprobe.backends.torch.none_reads import NoneReads
from backprobe.backends.torch.parameter_updates import Updates
from backprobe.backends.torch.partials import silent
from backprobe.backends.torch.pipelines import NONE, schedules
from backprobe.backends.torch.private import (
    current_pass,
    nodes_made,
    queue_callback,
    queue_last,
)
from backprobe.backends.torch.recheck import random_states
from backprobe.backends.torch.scaling import multiple
from backprobe.backends.torch.tape import NOTHING_PASSED, UPDATED
from backprobe.backends.torch.trained_names import TrainedNames
from backprobe.backends.torch.training import Census
from backprobe.backends.torch.uncompiled import calls_plain_code
from backprobe.backends.torch.useless import TorchUselessGradients
from backprobe.backends.torch.writes import BEHIND_AUTOGRAD
from backprobe.backends.user_lines import users_line
from backprobe.record.reasons import Reason
from backprobe.record.source import Source

UNHEARD = "what backward computes, and has no name"
HOME = torch.__file__.removesuffix("__init__.py")
TRACERS = ("_dynamo/", "_inductor/", "jit/", "fx/", "export/", "_functorch/_aot_autograd/")
"""Parts of torch that run the user's functions to trace them."""
UNNUMBERED = -1
REQUIRES_GRAD = attrgetter("requires_grad")


@lru_cache(4096)
def _traces(code: CodeType, file: str) -> bool:
    runs_as_it_is = code.co_qualname.startswith("DisableContext")
    return not runs_as_it_is and file.startswith(tuple(HOME + part for part in TRACERS))


class TorchBlockTape(BlockCaptures, Late, Recompute, AtEnd):
    """PyTorch's ``BlockTape``."""

    refused = ()
    useless: TorchUselessGradients | None = None

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.schedules = schedules(begins=self._begin_leaves, added=self._half_over)
        self.passed = self.passing = Passing(options.create_graph, self.schedules)
        self.take, self.take_early = self.passing.take, self.passing.take_early
        self.take_of_leaf = self.passing.take_of_leaf
        self.waiting: dict[Capture, Tensor] = {}  # floating-point captures that have no history yet
        self.at_end: Backward | None = None  # the result of the pass that backprobe ran at the end of the block
        self.noticed: dict[Node, None] = {}  # the nodes at which passes have started
        self.listening = ExitStack()
        self.kept_gradients = NoneReads(self.passing)
        self.census = Census(self.passing, self.kept_gradients)

    # Methods that are called while the block runs.

    def listen(self, began: Callable[[Sequence[Any], bool], Sequence[Any]]) -> None:
        self.start = nodes_made()
        self.passing.began, self.passing.quiet = partial(self._begun, began), self.quiet
        self.is_shared = torch.distributed.is_available() and torch.distributed.is_initialized()
        steps = self.steps.listen(self.expose, self.look_at_exposed, self._look_at_leaves_written)
        self.keep_hooks([*steps, *self.census.listen()])
        self.scaled.listen()
        if self.schedules is not NONE:
            self.listening.enter_context(self.schedules.listening())
        if self.births is not None:
            self.births.counts = self.passing.is_counted
            self.updates = Updates(self.quiet, self._kept) if self.options.updates else None

    def _begun(self, began: Callable[[Sequence[Any], bool], Sequence[Any]], call: BackwardCall) -> None:
        # Called when a call of ``backward()`` or ``grad()`` has started.
        if self.leaves and not (call.is_grad or self.schedules.half):
            self._compare_leaves()
        self._compare_uses(call.nodes)
        if self.exposed:
            self.look_at_saved(call.nodes)
        known = set(self.numbers)
        if self.births is not None:
            nodes = self.births.listen(call.nodes)
            if self.updates is not None:
                self.updates.backward(nodes)
        if not (call.is_nested or call.is_grad):
            self.multiples += [
                (root, found, key(get_gradient_edge(root)) in known)
                for root in call.roots
                if (found := multiple(root)) is not None
            ]
        with self.quiet():
            self._come_last()
            if call.is_second:
                return
            roots = call.roots
            if call.edges or call.input_edges:
                call.inputs += self._named_at(call.input_edges)
                roots += self._named_at(call.edges)
            captures = began(roots, call.is_grad)
            self.passing.output.captures = {**self.passing.output.captures, **dict.fromkeys(captures)}
            if call.is_grad:
                self._listen_to_inputs(call.inputs)
            for capture, cotangent in zip(captures, call.cotangents, strict=False):  # edges have no cotangents
                if capture.edge is not None and key(capture.edge) not in known:
                    self._start_at(capture, cotangent, len(captures) == 1)

    def _named_at(self, edges: Sequence[GradientEdge]) -> tuple[Tensor, ...]:
        # Return the recorded tensors that belong to these edges, if there are any.
        self.place()
        held = [one for of_memory in self.by_memory.values() for one in of_memory if one.edge is not None]
        known = {key(one.edge): one.tensor for one in held if one.edge is not None}
        return tuple([known[key(edge)] for edge in edges if key(edge) in known])

    def _listen_to_inputs(self, inputs: Sequence[Tensor]) -> None:
        # Called with the ``inputs`` of a call of ``grad()``. It does not run the nodes of its inputs, so prehooks of
        # these nodes are not called. Hooks of the tensors are called.
        self.passing.asked.clear()
        for tensor in inputs:
            edge = None if id(tensor) in self.listened else gradient_edge(tensor)
            number = None if edge is None else self.numbers.get(key(edge))
            if number is not None:
                self.passing.asked.add(number)
            if number in self.prehooked or number in self.passing.late:
                assert number is not None
                hooks, at = put_hook(tensor, partial(self.passing.offer, number))
                queue_callback(partial(hooks.pop, at, None))

    hears = frozenset({"forward", "setup_context", "backward", "grad"})

    def entered(self, frame: FrameType) -> None:
        """Observe a call of ``backward()`` or ``grad()`` by the program, even if no value in its graph has a name. Also
        note the modules whose forward is entered, and the custom functions that are applied.
        """
        if frame.f_code in CALLS:
            call = BackwardCall.of(frame)
            if call.is_ours or call.is_transformed or not self.passing.is_open:
                return
            self._take_partials()
            if self.useless is not None:
                self.useless.begins(call)
            new = [node for node in call.nodes if node not in self.noticed]  # backward may start there again
            self.noticed.update(dict.fromkeys(new))
            handles: list[Any] = [node.register_prehook(self.passing.notice) for node in new]
            alone: list[Any] = [root for root in call.roots if root.grad_fn is None and root.requires_grad]
            self.keep_hooks([*handles, *(root.register_hook(self.passing.notice) for root in alone)])
        elif frame.f_code.co_name in ("forward", "setup_context"):
            self.census.runs.entered(frame)

    def _take_partials(self) -> None:
        # Compute local partials, because the program is about to run backward, and not inside another pass.
        if self.partials is not None and current_pass() < 0:
            with self.quiet(), self.passing.closed():
                self.partials.take(self.is_shared)

    def _start_at(self, capture: Capture, cotangent: Tensor | None, alone: bool) -> None:
        # The node of this root ran in this pass before it got a hook. If it is the only root, its gradient is the
        # cotangent. Otherwise the gradient is not known.
        if not alone:
            capture.opaque = Reason("several_roots")
        seed = torch.ones_like(capture.tensor) if cotangent is None else cotangent
        self.passing.add(capture.number, seed)

    def _note_without_history(self, capture: Capture) -> None:
        super()._note_without_history(capture)
        if self.is_floating(capture.tensor):
            if capture.unfollowed is not None and capture.unfollowed.mode:
                capture.part = self.to_be_repeated()
                capture.in_vain = in_vain() if capture.part is not None else None
            self.waiting[capture] = capture.tensor

    def _overwritten_unseen(self, capture: Capture) -> None:
        # An optimizer may update a parameter after backward(). The parameter's gradient stays valid until the next
        # gradient arrives.
        if current_pass() >= 0 or (capture.leaf is None and self.passing.begun <= capture.calls):
            super()._overwritten_unseen(capture)
            return
        if capture.leaf is not None:
            capture.leaf.write()
        self.updated[capture] = None
        self.found_overwritten.append(capture)
        self.has_found = True

    def _compare_uses(self, roots: Sequence[Node]) -> None:
        # Called when a pass starts. The gradient of a written leaf is wrong if it passes through operations that used
        # older values of the leaf.
        written = [(at, leaf) for at, leaf in self.listened.items() if leaf.written >= 0]
        uses, hidden = graph.first_uses(roots) if written else ({}, math.inf)
        untouched = set()
        for at, leaf in written:
            first = min(uses.get(at, math.inf), hidden)
            leaf.is_fresh = leaf.written <= first < math.inf
            if roots and first == math.inf:
                untouched.add(leaf.number)
        updated, self.updated = self.updated, {}
        for capture in updated:
            if capture.leaf is None or not (capture.leaf.is_fresh or capture.leaf.number in untouched):
                capture.opaque = BEHIND_AUTOGRAD
            elif capture.leaf.is_fresh:
                capture.opaque = capture.opaque or UPDATED
            else:
                self.updated[capture] = None

    # Methods for checkpoints.

    def repeated(self) -> Hashable | None:
        return None if current_pass() < 0 else computing_again() or UNHEARD

    runs_once, running_pass = staticmethod(torch.is_grad_enabled), staticmethod(current_pass)

    def to_be_repeated(self) -> Hashable | None:
        return None if torch.is_grad_enabled() else to_compute_again()

    def computed_again(self, capture: Capture, again: Capture) -> None:
        if not capture.is_followed:
            capture.again = again
            again.alias = None  # ``capture`` already holds the same numbers
            if not again.writes and again.geometry is None:
                again.tensor = capture.tensor

    # Methods for histories that begin after a tensor was named.

    def entering(self, frame: FrameType) -> None:
        if self.updates is not None:
            line = users_line(frame.f_back)
            self.updates.look(None if line is None else (line.file, line.line))

    def look_again(self, at: tuple[str, int] | None = None) -> None:
        if self.updates is not None:
            self.updates.look(at, self.exposed_now)
        if any(map(REQUIRES_GRAD, self.waiting.values())):
            for capture in [capture for capture, tensor in self.waiting.items() if tensor.requires_grad]:
                self.seen_again(capture)

    def seen_again(self, capture: Capture) -> None:
        self.late_edge(capture)
        if capture.is_followed:
            self.waiting.pop(capture, None)

    def late_edge(self, capture: Capture) -> None:
        had_none = not capture.is_followed
        super().late_edge(capture)
        if had_none and capture.is_followed and self.passing.begun > capture.calls and not capture.opaque:
            capture.opaque = Reason("requires_grad_late")

    # Methods for leaves in trainings with several processes.

    def _compare_leaves(self) -> None:
        # If several processes train together, the gradient that backward stores in ``.grad`` may differ from the one
        # that arrives at a leaf: it may be averaged, or belong to another tensor. So ``.grad`` is read after all
        # callbacks.
        self._begin_leaves()
        queue_last(self._take_leaves)

    def _begin_leaves(self) -> None:
        # Called when a backward begins, or one of the halves into which some pipeline schedules split a backward.
        for leaf in self.leaves:
            leaf.begin()

    def _half_over(self) -> None:
        # Called when one half of a split backward has added to ``.grad``, after the pass of this half has ended.
        if self.leaves:
            self._take_leaves()

    def _take_leaves(self) -> None:
        for leaf in self.leaves:
            added = leaf.take()
            if added is not None:
                self.passing.arrived[leaf.number] = added
            if leaf.is_apart:
                self.passing.output.apart.add(leaf.number)
        self.passing.count += 1

    def _look_at_leaves(self, captures: Sequence[Capture]) -> None:
        # Called if no pass ran any hook. A ``.grad`` that exists now but did not exist before comes from a pass. If
        # there was one before and it has changed, it is not known what passes have added.
        unclear = [leaf for leaf in self.leaves if leaf.had is not None and not leaf.is_untouched]
        for capture in captures:
            if any(capture.tensor is leaf.tensor for leaf in unclear):
                capture.opaque = Reason("grad_held_before")
        if any(leaf.had is None and not leaf.is_untouched for leaf in self.leaves):
            self.passing.begin_unnumbered(UNNUMBERED)
            self._take_leaves()

    def _lead_around(self, write: ViewWrite) -> None:
        if (write.node, AROUND) not in self.numbers:
            self.numbers[write.node, AROUND] = number = self._number()
            handle = write.node.register_hook(partial(self.take, number, 0, False))
            self.hooks += (handle.hooks_dict_ref(), handle.id)

    def hides(self, code: CodeType) -> bool:
        return code in CALLS or (_traces(code, code.co_filename) and not calls_plain_code(code))

    def differentiates(self, code: CodeType) -> bool:
        return code in CALLS

    def not_followed(self) -> Sequence[Reason]:
        left = str(self.passing.left)
        lost = [] if left == "0" else [Reason("outputs_not_kept", {"count": left, "most": str(MOST_OUTPUTS)})]
        return [*lost, *self.schedules.notes, *self.census.zeros(self.passing.calls), *self._useless()]

    def _useless(self) -> Sequence[Reason]:
        # This must run even if it is unknown which parameters are trained: operations are judged too, and the data of
        # the passes is released here.
        if self.useless is None:
            return []
        judged, runs = self.census.judged(self.passing.calls), self.census.runs
        if judged is None:
            return self.useless.found([], TrainedNames(runs.modules.values(), runs.held, runs.callers.values()))
        return self.useless.found([*judged.parameters.values()], judged.names)

    def cut_short(self) -> Sequence[Source | None]:
        return [call.at for call in self.passing.calls if not call.is_over]

    def has_history(self, capture: Capture) -> bool:
        return capture.is_followed and capture.leaf is None

    def leads_on(self, captures: Sequence[Capture]) -> bool:
        calls = [call for output in self.passing.outputs for call in output.calls]
        if calls and calls[-1].keeps_graph:
            return True
        behind = {*graph.all_nodes(node for call in calls for node in call.nodes)}
        return any(one.edge is not None and one.leaf is None and one.edge.node not in behind for one in captures)

    def run_backward(self, root: Root, captures: Sequence[Capture]) -> None:
        followed = with_edges([with_history(capture) for capture in captures])
        with self.quiet(), self.passing.closed(), put_back(random_states(())):
            self.settle(followed)
            self.mark_changed(followed)
            with silent(followed) as hooked:
                passed = self._passed(root, followed, True)
        silenced = Reason("hook_not_called")
        self.at_end = replace(passed, notes=(*passed.notes, *((at, silenced) for at in hooked)))

    # Methods that report gradients.

    @property
    def progress(self) -> int:
        return self.passing.count + len(self.kept_gradients) + sum(not leaf.is_untouched for leaf in self.leaves)

    @property
    def freed(self) -> Sequence[BackwardCall]:  # type: ignore[override]  # read alone
        return self.passing.freed

    def unfinished(self, captures: Sequence[Capture]) -> Backward:
        return super().unfinished(with_edges([with_history(capture) for capture in captures]))

    def backward(self, captures: Sequence[Capture]) -> list[Backward]:
        if self.at_end is not None:
            return [self.at_end]
        columns = self.settle(captures)
        if self.leaves and self.passing.passes.keys() <= {UNNUMBERED}:
            self._look_at_leaves(captures)
        return [self.of_output(columns, output) for output in self.passing.told_apart()]

    def release(self) -> None:
        if self.births is not None:
            self.keep_hooks(self.births.handles)
        self.edge_hooks.release()
        super().release()
        self.scaled.stop()
        self.listening.close()
        self.passed, self.passing, self.updates, self.census, self.births = None, NOTHING_PASSED, None, Census(), None
        self.kept_gradients = NoneReads(self.passing)
        self.partials = self.at_end = None
        del self.take, self.take_early, self.take_of_leaf, self.schedules
