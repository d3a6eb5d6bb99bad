"""The captures of a block, and the hooks that store the gradients of each capture, by the number of the capture.

Nearly all captured tensors are results of PyTorch's own operations, or parameters, and are captured in few steps. When
a block begins, the parameters of a model are captured together if they are ordinary tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, compress, count, repeat
from operator import attrgetter
from types import MethodType
from typing import Any

from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge, Node

from backprobe.backends.facts import Around, Options
from backprobe.backends.torch import own_modes
from backprobe.backends.torch.backward_passes import SharedLeaf
from backprobe.backends.torch.block_outcomes import BlockOutcomes
from backprobe.backends.torch.capture import TOKENS, Capture, ListenedLeaf, make
from backprobe.backends.torch.gradient_hooks import EdgeHooks, put_hook, put_hooks
from backprobe.backends.torch.graph import key
from backprobe.backends.torch.private import WRITTEN_IN_PYTHON, is_wrapped
from backprobe.backends.torch.tensors import ORDINARY

VERSION, IS_LEAF, REQUIRES_GRAD = attrgetter("_version"), attrgetter("is_leaf"), attrgetter("requires_grad")
IS_VIEW = Tensor._is_view


class BlockCaptures(BlockOutcomes):
    """The part of a block's tape that captures tensors and puts hooks at their edges."""

    take: Callable[..., None]
    take_early: Callable[..., None]
    take_of_leaf: Callable[..., None]

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.edge_hooks = EdgeHooks()
        self.count = 0  # how many numbers were given to edges, nodes and leaves
        self.listened: dict[int, ListenedLeaf] = {}  # the leaves with hooks, by id
        self.leaf_hooks: dict[int, Tensor] = {}  # the leaves with hooks, by the key of the hook
        self.leaf_versions: list[int] = []  # the versions of these leaves when they were last examined
        self.prehooked: set[int] = set()  # the numbers of edges whose nodes have a prehook
        self.leaves: list[SharedLeaf] = []  # the leaves, if several processes train together

    def capture(
        self,
        tensor: Tensor,
        around: Callable[[], Around] | None,
        previous: Capture | None = None,
        through: bool = False,
    ) -> Capture:
        node = tensor.grad_fn
        if node is None or previous is not None or through or self.is_particular or isinstance(node, WRITTEN_IN_PYTHON):
            return self._capture_other(tensor, around, previous, through)
        alias = None if own_modes.dispatch_modes() > own_modes.count else tensor.detach()
        if alias is None or is_wrapped(alias):
            return super().capture(tensor, around)
        at = tensor.output_nr
        number = self.numbers.get((node, at)) or self._listen_at(tensor, node, at, False)
        edge = make(GradientEdge, (node, at, *TOKENS))
        capture = Capture(tensor, tensor._version, alias, self.passing.begun, edge, number)
        if type(tensor) not in self.ordinary:
            self.has_subclasses = True
        self.unplaced.append(capture)
        return capture

    def _capture_other(
        self, tensor: Tensor, around: Callable[[], Around] | None, previous: Capture | None, through: bool
    ) -> Capture:
        made = super().capture(tensor, around, previous, through)
        if self.partials is not None:
            self.partials.captures.append(made)
        return made

    # Methods that capture the parameters of a model together.

    def captures(self, tensors: Sequence[Tensor]) -> Sequence[Capture]:
        if (
            self.is_particular
            or self.is_shared
            or own_modes.dispatch_modes() > own_modes.count
            or not ORDINARY.issuperset(map(type, tensors))
        ):
            return super().captures(tensors)
        try:
            versions = [*map(VERSION, tensors)]
        except RuntimeError:  # an inference tensor has no version
            return super().captures(tensors)
        aliases = [*map(Tensor.detach, tensors)]
        if any(map(is_wrapped, aliases)):
            return super().captures(tensors)
        are_whole = all(map(IS_LEAF, tensors)) and not any(map(IS_VIEW, tensors))
        if not are_whole or not self.listened.keys().isdisjoint(map(id, tensors)):
            return super().captures(tensors)
        needs = [*map(REQUIRES_GRAD, tensors)]
        trained = iter(self._of_leaves(*([*compress(each, needs)] for each in (tensors, versions, aliases))))
        made = [
            next(trained) if needs_grad else self._of_frozen(tensor, version, alias)
            for tensor, version, alias, needs_grad in zip(tensors, versions, aliases, needs, strict=True)
        ]
        self.unplaced += made
        return made

    def _of_frozen(self, tensor: Tensor, version: int, alias: Tensor) -> Capture:
        # Return the capture of a tensor that requires no gradient.
        capture = Capture(tensor, version, alias, self.passing.begun)
        self._note_without_history(capture)
        return capture

    def _of_leaves(
        self, tensors: Sequence[Tensor], versions: Sequence[int], aliases: Sequence[Tensor]
    ) -> list[Capture]:
        # Return the captures of leaves, which get a hook now.
        numbers = range(self.count + 1, self.count + 1 + len(tensors))
        self.count += len(tensors)
        leaves = [*map(ListenedLeaf, numbers, versions)]
        self.listened.update(zip(map(id, tensors), leaves, strict=True))
        hooks, first = put_hooks(tensors, map(MethodType, repeat(self.take_of_leaf), leaves))
        self.hooks += chain.from_iterable(zip(hooks, count(first), strict=False))
        self.leaf_hooks.update(zip(count(first), tensors, strict=False))
        calls = repeat(self.passing.begun)
        return [*map(Capture, tensors, versions, aliases, calls, repeat(None), numbers, leaves)]

    # Methods for single edges and single leaves.

    def _take_edge(self, capture: Capture, previous: Capture | None, through: bool) -> None:
        # The node of a leaf is not kept, because PyTorch creates another node if the leaf gets another shape or dtype.
        tensor = capture.tensor
        if not tensor.is_leaf or tensor._is_view():
            super()._take_edge(capture, previous, through)
            return
        known = self.listened.get(id(tensor))
        if known is None:
            self._listen_to(capture)
        else:
            if previous is not None and known.version != capture.version:
                self._advance(known, capture.version)
            capture.leaf, capture.number = known, known.number

    def _advance(self, leaf: ListenedLeaf, version: int) -> None:
        # A leaf was written to: gradients that arrive from now on belong to its new version.
        leaf.write()
        if leaf.superseded is None:
            leaf.superseded = self.passing.begun
        leaf.number, leaf.version = self._number(), version

    def _look_at_leaves_written(self) -> None:
        # An optimizer has stepped, so leaves without a live name may have been written to.
        tensors = [*self.leaf_hooks.values()]
        now = [*map(VERSION, tensors)]
        if now == self.leaf_versions:
            return
        self.leaf_versions = now
        for tensor, version in zip(tensors, now, strict=True):
            leaf = self.listened[id(tensor)]
            if leaf.version != version:
                self._advance(leaf, version)

    def _listen_to(self, capture: Capture) -> None:
        tensor = capture.tensor
        capture.number = number = self._number()
        capture.leaf = self.listened[id(tensor)] = leaf = ListenedLeaf(number, capture.version)
        take: Callable[..., None] = MethodType(self.take_of_leaf, leaf)
        if self.is_shared:
            self.leaves.append(SharedLeaf(leaf.number, tensor))
            take = partial(self.passing.take_of_shared_leaf, leaf)
        hooks, at = put_hook(tensor, take)
        self.hooks += (hooks, at)
        self.leaf_hooks[at] = tensor

    def _number(self) -> int:
        self.count += 1
        return self.count

    def _come_last(self) -> None:
        # Put our hooks behind those of the user: the gradient that flows on is the one that the last hook returns.
        for at, tensor in self.leaf_hooks.items():
            hooks: Any = tensor._backward_hooks
            if len(hooks or ()) > 1 and at in hooks:
                hooks[at] = hooks.pop(at)  # PyTorch ignores the order of ``move_to_end``
        for node, output, number in self.edge_hooks.taken_off(self.passing.late):
            self.passing.late.add(number)
            self._put_prehook(node, partial(self.take, number, output, False))

    def _attach(self, capture: Capture) -> None:
        assert capture.edge is not None
        node, at = key(capture.edge)
        number = self.numbers.get((node, at))
        if number is None:
            is_users, is_own = isinstance(node, BackwardCFunction), node is capture.tensor.grad_fn
            number = self._listen_at(capture.tensor, node, at, is_users, is_own)
        capture.number = number

    def _listen_at(self, tensor: Tensor, node: Node, at: int, is_users: bool, is_own: bool = True) -> int:
        # Collect the gradient that arrives at an edge, and return the number under which it is stored. If ``is_users``,
        # the user wrote the node's backward, which may write into its arguments.
        #
        # Such a node gets a prehook, and so does one that is not the tensor's own, such as that of a view that was
        # written: it may belong to a tensor on which the user has hooks. Other edges get a hook at the tensor, if
        # ``EdgeHooks`` can put it.
        self.count = number = self.numbers[node, at] = self.count + 1
        take = MethodType(self.take_early, number)  # faster than ``partial``, which creates one more object
        if is_users or not is_own or not self.edge_hooks.put(tensor, node, at, number, take):
            self.prehooked.add(number)
            self._put_prehook(node, partial(self.take, number, at, is_users))
        return number

    def _put_prehook(self, node: Node, hook: Callable[..., None]) -> None:
        handle = node.register_prehook(hook)
        self.hooks += (handle.hooks_dict_ref(), handle.id)  # a kept handle would be one more object for the collector
