"""Which tensors hold NaN or Inf, and which operations of a backward pass make them.

A tensor is finite if its smallest and its largest number are: ``aminmax`` reads it once, at the speed of memory, makes
no copy, and lets NaN through. ``isfinite`` writes a tensor of its own and is ten times slower, a sum may overflow.
Nothing is asked of a device before all is over; then all answers come with one transfer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node, get_gradient_edge

from backprobe.backends.facts import Backward
from backprobe.backends.torch.backward_passes import current_pass
from backprobe.backends.torch.capture import Capture
from backprobe.backends.torch.graph import LEAF, Key, all_nodes, key
from backprobe.backends.torch.tensors import COMPRESSED, here, is_there
from backprobe.record.nonfinite import BackwardOp, Kind, Nonfinite

FINITE: Kind = "finite"
INF: Kind = "inf"
NAN: Kind = "nan"
BADNESS: dict[Kind, int] = {FINITE: 0, INF: 1, NAN: 2}
NARROW = 2  # bytes: dtypes of fewer have no extremes of their own
Extremes = tuple[Tensor, Tensor]
Look = tuple[int, int, int]
"""Where the extremes of a gradient are among those judged, -1 where it has none; its address and its size."""


def extremes(tensor: Tensor) -> Extremes | None:
    """The smallest and the largest number, still on its device; NaN where there is one. None where there is none."""
    numbers = _held(tensor)
    if numbers is None or not numbers.numel():
        return None
    return torch.aminmax(numbers)


def _held(tensor: Tensor) -> Tensor | None:
    """The floating numbers that a tensor holds, without the zeros that a sparse one leaves out."""
    if tensor.is_meta or not (tensor.is_floating_point() or tensor.is_complex()):
        return None
    numbers = tensor if type(tensor) is Tensor else here(tensor)
    if numbers.layout is torch.sparse_coo:
        numbers = numbers._values()
    elif numbers.layout in COMPRESSED or numbers.is_nested:
        numbers = numbers.values()
    elif numbers.layout is not torch.strided:
        numbers = numbers.to_dense()
    if numbers.is_complex():
        numbers = torch.view_as_real(numbers.resolve_conj())
    numbers = _as_it_lies(numbers)
    return numbers if numbers.element_size() >= NARROW else numbers.float()


def _as_it_lies(numbers: Tensor) -> Tensor:
    """The same numbers in the order in which memory has them, each once.

    A transposed tensor is read ten times slower than it is by its strides, and an expanded one again and again.
    """
    if numbers.is_contiguous():
        return numbers
    steps = numbers.stride()
    once = numbers[tuple(slice(1) if step == 0 else slice(None) for step in steps)] if 0 in steps else numbers
    return once.permute(sorted(range(numbers.ndim), key=steps.__getitem__, reverse=True))


def kinds(found: Sequence[Extremes]) -> list[Kind]:
    """What each pair of extremes tells: ``finite``, ``inf`` or ``nan``. One transfer for each device."""
    told = [FINITE] * len(found)
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for at, (low, _) in enumerate(found):
        groups.setdefault((low.device, low.dtype), []).append(at)
    answers: dict[torch.device, list[tuple[list[int], Tensor]]] = {}
    for (device, _), places in groups.items():
        lows, highs = (torch.stack([found[at][side] for at in places]) for side in (0, 1))
        codes = torch.isnan(lows) * 2 + (torch.isinf(lows) | torch.isinf(highs))
        answers.setdefault(device, []).append((places, codes))
    for parts in answers.values():
        fetched = torch.cat([part for _, part in parts]).tolist()
        for at, code in zip((at for places, _ in parts for at in places), fetched, strict=True):
            told[at] = NAN if code >= 2 else INF if code else FINITE
    return told


def nonfinite(tensors: Sequence[Tensor]) -> list[Nonfinite | None]:
    """How many numbers of each tensor are NaN and Inf: counted only in those that hold one."""
    judged: dict[Any, Extremes | None] = {}
    places = []
    with torch.no_grad():
        for tensor in tensors:
            same = _same_numbers(tensor)
            if same not in judged:
                judged[same] = extremes(tensor) if is_there(tensor) else None
            places.append(same)
        there = {same: found for same, found in judged.items() if found is not None}
        told = dict(zip(there, kinds(list(there.values())), strict=True))
        return [
            None if judged[same] is None and tensor.numel() else _count(tensor, told.get(same, FINITE))
            for same, tensor in zip(places, tensors, strict=True)
        ]


def _same_numbers(tensor: Tensor) -> Any:
    """Equal for tensors that hold the same numbers, such as a view of another shape: these are read once."""
    if tensor.layout is torch.strided and type(tensor) is Tensor and not tensor.is_nested and not tensor.is_meta:
        steps = sorted(pair for pair in zip(tensor.stride(), tensor.shape, strict=True) if pair[1] != 1)
        expected = 1
        for step, size in steps:
            if step != expected:
                break
            expected *= size
        else:
            return tensor.data_ptr(), tensor.numel(), tensor.dtype, tensor.device
    return id(tensor)


def _count(tensor: Tensor, told: str) -> Nonfinite:
    size = here(tensor).numel()
    if told == FINITE:
        return Nonfinite(0, 0, size)
    numbers = here(tensor).to_dense() if tensor.layout is not torch.strided else here(tensor)
    nan, finite = int(torch.isnan(numbers).sum()), int(torch.isfinite(numbers).sum())
    return Nonfinite(nan, numbers.numel() - nan - finite, size)


class Judge:
    """Looks at what comes to each node of autograd's graph and at what it gives, while backward runs.

    The hooks hold this and a number, and this holds the nodes until it is released. What comes to a node from one other
    alone was judged as that gave it, and what a node passes on as it came, such as a view, is what came: neither is
    read again.
    """

    def __init__(self, quiet: Callable[[], AbstractContextManager[Any]]) -> None:
        self.quiet = quiet
        self.counts: Callable[[], bool] = _always  # does the running pass count?
        self.numbers: dict[Node, int] = {}
        self.handles: list[Any] = []
        self.followers: list[tuple[tuple[int, int], ...]] = []  # by number: the places its gradients go to
        self.givers: dict[tuple[int, int], int] = {}  # how many nodes give to a place
        self.passing: dict[tuple[int, int], Look] = {}  # what was given to a place, and is on its way
        self.seen: list[tuple[int, list[int], list[tuple[int, int]]]] = []  # (node, given, (place, made)) into judged
        self.judged: list[Extremes] = []

    def listen(self, roots: Iterable[Node]) -> Sequence[Node]:
        """Judge what the nodes do from which backward is about to run. Returns them, and all that it comes to."""
        self.passing.clear()  # what an earlier pass left on its way lies elsewhere by now
        reached = all_nodes(roots)
        new = [node for node in reached if node not in self.numbers]
        for node in new:
            self.numbers[node] = len(self.numbers)
        for node in new:
            places = tuple((-1 if one is None else self.numbers[one], at) for one, at in node.next_functions)
            self.followers.append(places)
            for place in places:
                self.givers[place] = self.givers.get(place, 0) + 1
            if node.name() != LEAF:
                is_users = isinstance(node, BackwardCFunction)  # which may write into what it is given
                self.handles.append(node.register_hook(partial(self._take, self.numbers[node], is_users)))
        return reached

    def listen_to_one_pass(self, output: Tensor) -> None:
        """The same for the next pass alone: those that take local partials say nothing of the gradients."""
        first: list[int] = []

        def is_first() -> bool:
            running = current_pass()
            if not first:
                first.append(running)
            return running == first[0]

        self.counts = is_first
        self.listen([get_gradient_edge(output).node])

    def _take(self, number: int, is_users: bool, made: Sequence[Tensor | None], given: Sequence[Tensor | None]) -> None:
        if not self.counts():
            return
        with self.quiet(), torch.no_grad():
            came = [
                self._look(gradient, self.passing.pop((number, at), None))
                for at, gradient in enumerate(given) if gradient is not None
            ]  # fmt: skip
            same = came[0] if len(came) == 1 and not is_users else None
            places, gave = self.followers[number], []
            for at, gradient in enumerate(made):
                if gradient is not None:
                    look = self._look(gradient, same)
                    gave.append((at, look[0]))
                    if self.givers[places[at]] == 1:
                        self.passing[places[at]] = look
        self.seen.append((number, [at for at, *_ in came if at >= 0], [(at, look) for at, look in gave if look >= 0]))

    def _look(self, gradient: Tensor, known: Look | None) -> Look:
        """Judge a gradient, unless it is known to lie where one does that was judged."""
        if gradient.layout is not torch.strided or type(gradient) is not Tensor:
            address, size = 0, 0
        else:
            address, size = gradient.data_ptr(), gradient.numel()
            if known is not None and known[1:] == (address, size) and address:
                return known
        found = extremes(gradient)
        if found is None:
            return -1, address, size
        self.judged.append(found)
        return len(self.judged) - 1, address, size

    def told(self, passed: Backward, captures: Sequence[Capture]) -> Backward:
        """What backward gave, with the operations that made NaN or Inf."""
        found = self._found(captures)
        outcomes = [replace(outcome, made=found.get(at, ())) for at, outcome in enumerate(passed.outcomes)]
        return replace(passed, outcomes=outcomes)

    def _found(self, captures: Sequence[Capture]) -> dict[int, tuple[BackwardOp, ...]]:
        """The operations that made NaN or Inf of less, by the capture in whose line they are, as backward ran."""
        told = kinds(self.judged)
        births = []
        for number, came, gave in self.seen:
            given = max((told[at] for at in came), key=BADNESS.__getitem__, default=FINITE)
            births += [(number, place, given, told[at]) for place, at in gave if BADNESS[told[at]] > BADNESS[given]]
        if not births:
            return {}
        nodes = list(self.numbers)
        owners, places = _owners(captures)
        found: dict[int, list[BackwardOp]] = {}
        for number, place, given, made in births:
            node = nodes[number]
            owner = owners.get(node)
            if owner is not None:
                towards = _first_recorded(node.next_functions[place], places)
                one = BackwardOp(_plain_name(node), towards, given, made)
                if one not in found.setdefault(owner, []):
                    found[owner].append(one)
        return {owner: tuple(ones) for owner, ones in found.items()}

    def release(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.counts = _always
        for held in (self.handles, self.numbers, self.followers, self.givers, self.passing, self.seen, self.judged):
            held.clear()  # type: ignore[attr-defined]


def _always() -> bool:
    return True


def _plain_name(node: Node) -> str:
    """``Sqrt`` of ``SqrtBackward0``, as PyTorch calls its operations."""
    name = node.name().removeprefix("torch::autograd::")
    return name.rstrip("0123456789").removesuffix("Backward") or name


def _owners(captures: Sequence[Capture]) -> tuple[Mapping[Node, int], Mapping[Key, int]]:
    """Which capture each node belongs to: the first in the order of execution whose computation it is a part of."""
    places: dict[Key, int] = {}
    for at, capture in enumerate(captures):
        if capture.edge is not None:
            places.setdefault(key(capture.edge), at)
    named = {node for node, _ in places}
    owners: dict[Node, int] = {}
    for (node, _), at in places.items():
        owners.setdefault(node, at)
        pending = [node]
        while pending:
            for follower, _ in pending.pop().next_functions:
                if follower is not None and follower not in named and follower not in owners:
                    owners[follower] = at
                    pending.append(follower)
    return owners, places


def _first_recorded(start: tuple[Node | None, int], places: Mapping[Key, int]) -> int | None:
    """The capture that a gradient flows to: itself, or the only one that it can come to next."""
    found: set[int] = set()
    seen: set[Node] = set()
    pending = [start]
    while pending:
        node, number = pending.pop()
        if node is None:
            continue
        if (node, number) in places:
            found.add(places[node, number])
        elif node not in seen:
            seen.add(node)
            pending += node.next_functions
    return found.pop() if len(found) == 1 else None
