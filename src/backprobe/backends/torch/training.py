"""Parameters that a block was expected to train, and those that got no gradient.

A parameter got no gradient if its ``.grad`` was None at each step of the optimizer that owns it (or at the end of the
block, if no optimizer stepped), and if no graph that ``backward()`` traversed leads to it. If a graph leads to it, it
still got none if a custom backward returned None on each path, or if ``backward()`` did not end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.nn import Module
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from backprobe.backends.call_sites import call_site
from backprobe.backends.seen import Seen
from backprobe.backends.torch import custom_functions, graph
from backprobe.backends.torch.backward_call import BackwardCall
from backprobe.backends.torch.backward_passes import Passing
from backprobe.backends.torch.capture import Capture, gradient_edge
from backprobe.backends.torch.custom_functions import Givers
from backprobe.backends.torch.forwards import IDLE, forward_code, mentioned_by
from backprobe.backends.torch.models import is_compiled_module
from backprobe.backends.torch.module_runs import ModuleRuns
from backprobe.backends.torch.none_reads import NoneReads
from backprobe.backends.torch.optimizer_steps import parameters
from backprobe.backends.torch.tensors import grad_of, is_zero
from backprobe.backends.torch.trained_names import TrainedNames
from backprobe.backends.torch.uncompiled import is_uncompiled
from backprobe.backends.torch.unregistered import not_held, twins, unregistered
from backprobe.backends.torch.unstepped import FirstSteps, unstepped
from backprobe.backends.user_lines import users_line
from backprobe.backends.zero_gradients import all_zero
from backprobe.findings.phrasing import listed
from backprobe.record.reasons import Reason
from backprobe.record.source import Source
from backprobe.record.training import ModuleCall, ModuleRan, Training, Untrained
from backprobe.source.user_code import package

MOST = 8  # the most entries that are kept for one parameter


class Reached:
    """The leaves that calls of ``backward()`` reached, computed on demand."""

    def __init__(self, calls: Sequence[BackwardCall]) -> None:
        self.calls = calls
        # is there a call, and none that is limited by ``inputs=``?
        self.is_whole = bool(calls) and not any(call.is_limited for call in calls)

    @cached_property
    def leaves(self) -> dict[int, Tensor]:
        """The leaves that calls without ``inputs=`` reached, by id."""
        nodes = graph.all_nodes(node for call in self.calls if not call.is_limited for node in call.nodes)
        return {id(leaf): leaf for leaf in graph.leaves(nodes)}

    @cached_property
    def sure(self) -> set[int]:
        """The ids of those leaves to which some path has no custom backward."""
        roots = [node for call in self.calls if not call.is_limited for node in call.nodes]
        nodes = graph.walked(roots, lambda node: not isinstance(node, BackwardCFunction))
        return {id(leaf) for leaf in graph.leaves(nodes)}

    def any_of(self, tensors: Iterable[Tensor]) -> bool:
        return any(id(one) in self.leaves for one in tensors)


@dataclass(frozen=True)
class Judged:
    """The parameters that were expected to be trained, by id; their names; and the leaves that backward reached."""

    parameters: Mapping[int, Tensor]
    names: TrainedNames
    reached: Reached

    def spared(self) -> set[int]:
        """Return the ids of parameters of models that ran and were not expected to be trained, such as those of a
        teacher model, or of an optimizer that did not step.
        """
        return {id(one) for one in self.names.parameters()}.difference(self.parameters)


class Census:
    """Observes the optimizers that step while a block is open, and the gradients that they find in ``.grad``."""

    def __init__(self, passing: Passing | None = None, reads: NoneReads | None = None) -> None:
        self.passing = passing  # the backward passes of the block so far
        self.reads = reads  # the reads of ``.grad`` that gave None, and the statements that cleared gradients
        self.runs = ModuleRuns()
        self.is_uncompiled = False
        self.stepped: dict[Optimizer, Source | None] = {}  # by optimizer: the line of its first step
        # by id: the parameters without a gradient before or after a step, and the number of ``backward()`` calls so far
        self.empty: dict[int, tuple[Tensor, int]] = {}
        self.filled = Seen()
        self.zero: dict[int, Tensor] = {}  # by id: parameters whose gradient was exactly 0 before or after a step
        self.has_moving = False  # was any gradient not 0, or is that unknown?
        self.unstepped: Sequence[Tensor] | None = None  # parameters that get gradients and that nothing steps

    @cached_property
    def first(self) -> FirstSteps:
        return FirstSteps()

    def listen(self) -> list[Any]:
        """Observe every step from now on. The returned handles remove the hooks."""
        self.is_uncompiled = is_uncompiled()  # the answers are given later, when this may have ended
        return [register_optimizer_step_pre_hook(self._look), register_optimizer_step_post_hook(self._after)]

    def _look(self, optimizer: Optimizer, *_: Any) -> None:
        # This also runs after the step, because the step's closure may have called ``backward()``.
        if torch.compiler.is_compiling():
            return
        if self.stepped.get(optimizer) is None:
            self.stepped[optimizer] = users_line(sys._getframe(1))
        for tensor in parameters(optimizer):
            if not tensor.is_leaf:  # the gradient of a computed tensor is not read either: see ``grad_of``
                continue
            if tensor.grad is not None:
                self.filled.add(tensor)
                if not self.has_moving:
                    self.has_moving = not is_zero(tensor.grad)
                    if not (self.has_moving or self._is_cleared(tensor)):
                        self.zero[id(tensor)] = tensor
            elif tensor.requires_grad:
                self.empty[id(tensor)] = tensor, 0 if self.passing is None else len(self.passing.calls)

    def _after(self, optimizer: Optimizer, *_: Any) -> None:
        if not torch.compiler.is_compiling():
            self._look(optimizer)
            self.first.stepped(optimizer, self.runs.modules.values())

    def _is_cleared(self, one: Tensor) -> bool:
        # Is the gradient 0 because it was cleared, and no backward has added to it since?
        calls = () if self.passing is None else self.passing.calls
        return not calls or (self.reads is not None and self.reads.cleared_at(one) is not None)

    def judged(self, calls: Sequence[BackwardCall]) -> Judged | None:
        """Return the parameters that were expected to be trained: those of the optimizers that stepped. If none
        stepped, those of the models that ran with gradients enabled, if ``backward()`` ran and no call was limited by
        ``inputs=``. None if there are none.
        """
        if not self.stepped and not self.runs.modules:
            return None
        names, reached = self._names(), Reached(calls)
        held: list[Iterable[Tensor]] = [filter(self._was_owned, parameters(one)) for one in self.stepped]
        if not self.stepped and reached.is_whole:
            held = [model.parameters() for model in names.models if self.runs.has_recorded(model)]
        leaves = (leaf for own in held for one in own for leaf in self._leaves(one, names))
        found = {id(one): one for one in leaves if self.stepped or not self._is_replaced(one, names)}
        return Judged(found, names, reached) if found else None

    def _names(self) -> TrainedNames:
        return TrainedNames(self.runs.modules.values(), self.runs.held, self.runs.callers.values())

    def _was_owned(self, one: Tensor) -> bool:
        # Did the optimizer own a parameter when it stepped? It may have been added or unfrozen since.
        return one in self.filled or id(one) in self.empty or not (one.is_leaf and one.requires_grad)

    def zeros(self, calls: Sequence[BackwardCall]) -> Sequence[Reason]:
        """Return a note if the gradients of all parameters are 0, notes on gradients that are 0 behind custom backwards
        of the program, and notes on the functions that custom backwards call unrecorded.

        For the first note, the gradients are those at the optimizers' steps. If no optimizer stepped, they are the
        current ones; then it is not given if one of them was written to since the engine made it. The other notes are
        on the current gradients.
        """
        for one in () if self.stepped or self.has_moving else self.runs.held.values():
            tensor = one.tensor()
            if tensor is not None and tensor.is_leaf and tensor.grad is not None and not self.has_moving:
                self.zero[id(tensor)] = tensor
                self.has_moving = not is_zero(tensor.grad) or tensor.grad._version != 0
        is_all = self.zero and not self.has_moving and calls and all(call.is_over for call in calls)
        is_custom = custom_functions.are_users()
        if not (is_all or is_custom):
            return []
        names = self._names()
        at = next((call.at for call in reversed(calls) if call.at is not None), None)
        found = [all_zero([*map(names.of, self.zero.values())], at)] if is_all else []
        if not is_custom:
            return found
        givers = Givers([node for call in calls if not call.is_limited for node in call.nodes])
        leaves = [
            (one, edge.node, gradient)
            for one in graph.leaves(givers.of)
            if (gradient := grad_of(one)) is not None and (edge := gradient_edge(one)) is not None
        ]
        zeros = [
            custom_functions.reason("zero_by_hand", functions, names=listed([*map(names.of, each)]))
            for functions, each in custom_functions.zero_by_hand(leaves, givers).items()
        ]
        return [*found, *zeros, *givers.unrecorded()]

    def _leaves(self, one: Tensor, names: TrainedNames) -> Iterable[Tensor]:
        # Return the parameter itself if it is a leaf. Otherwise the program has put a computed tensor in its place;
        # return the leaves that were in this place when the module ran.
        if one.is_leaf:
            return (one,)
        name, owner = names.owners.get(id(one), ("", None))
        return self.runs.leaves_of(owner, name.rpartition(".")[2]) if owner is not None else ()

    def _is_replaced(self, one: Tensor, names: TrainedNames) -> bool:
        if self.runs.has_held(one):
            return False
        owner = names.owner(one)
        return owner is not None and self.runs.ran_with_others(owner, one)

    def found(
        self, judged: Judged, captures: Sequence[Capture], inputs: Sequence[Sequence[int]], compiled: bool
    ) -> Training | None:
        """Return the outcome for these parameters. None if they turn out not to have been meant for training."""
        names, reached = judged.names, judged.reached
        trainable = [one for one in judged.parameters.values() if one.requires_grad or one in self.filled]
        cleared, unsent = self._without_at_step(trainable, reached.calls)
        lacking = [one for one in trainable if self._lacks(one) and (not reached.any_of([one]) or id(one) in unsent)]
        spared = names.only_passed(reached.any_of) if lacking and not self.stepped else set()
        trainable, lacking = ([one for one in own if id(one) not in spared] for own in (trainable, lacking))
        if not trainable and spared:
            return None
        late = self._cut_short(trainable, names, reached)
        lacking = [*lacking, *(one for one in late.values() if not any(one is other for other in lacking))]
        frozen = {id(one) for one in (*judged.parameters.values(), *names.parameters()) if not one.requires_grad}
        untrained = [*self._untrained(lacking, late, names, captures, inputs, reached, compiled)] if lacking else []
        stray = [*unregistered(names, reached.leaves, self.stepped)] if self.stepped and self.runs.modules else []
        replaced = [one for one, each in zip(lacking, untrained, strict=True) if _is_of_no_model(each)]
        if replaced or (lacking and len(lacking) == len(trainable)):  # the optimizer may have the wrong parameters
            stray += not_held(names, reached.leaves)
        elif self.stepped and not compiled:
            stray += not_held(names, {id(one): one for one in self._unstepped(names, reached)})
        dropped, lost = self.runs.dropped_leaves(), {id(one) for one in lacking}
        spare = [call for call, leaves in dropped.items() if lost.isdisjoint(leaves)]
        untrained = [
            replace(each, dropped=tuple([call for call, leaves in dropped.items() if id(one) in leaves]))
            for one, each in zip(lacking, untrained, strict=True)
        ]
        return Training(
            len(trainable),
            len(frozen),
            bool(self.stepped),
            tuple(untrained),
            tuple(stray),
            tuple(map(names.of, cleared)),
            tuple(spare),
            tuple([(names.of(one), names.of(other)) for one, other in twins(names, reached.leaves, replaced)]),
        )

    def _unstepped(self, names: TrainedNames, reached: Reached) -> Sequence[Tensor]:
        if self.unstepped is None:  # they are those of the block, whichever output is asked for first
            self.unstepped = unstepped(names, reached.leaves, self.stepped, self.first)
        return self.unstepped

    def _cut_short(self, trainable: Sequence[Tensor], names: TrainedNames, reached: Reached) -> dict[int, Tensor]:
        # Return, by id, the parameters without a gradient that a ``backward()`` would have reached if it had ended. A
        # parameter of a module whose checkpoint was not recomputed counts as reached.
        if all(call.is_over for call in reached.calls):
            return {}
        owners = ((one, names.owner(one)) for one in trainable if self._lacks(one))
        return {
            id(one): one
            for one, owner in owners
            if reached.any_of([one]) or (owner is not None and self.runs.is_put_off(owner))
        }

    def _without_at_step(
        self, trainable: Sequence[Tensor], calls: Sequence[BackwardCall]
    ) -> tuple[list[Tensor], set[int]]:
        # Return the parameters that ``backward()`` reached before a step, but that had no gradient at any step.
        #
        # The first result is a list of parameters whose gradients were cleared. If each path to each of them has a
        # custom backward, which may have returned None, this list is empty, and the second result holds their ids.
        lacking = {one: self.empty[id(one)][1] for one in trainable if id(one) in self.empty and one not in self.filled}
        reached = {count: Reached(calls[:count]) for count in {*lacking.values()}}
        behind = [one for one, count in lacking.items() if reached[count].any_of([one])]
        if any(id(one) in reached[lacking[one]].sure for one in behind):
            return behind, set()
        return [], {id(one) for one in behind}

    def _lacks(self, one: Tensor) -> bool:
        return one not in self.filled and (id(one) in self.empty or grad_of(one) is None)

    def _untrained(
        self,
        lacking: Sequence[Tensor],
        late: Mapping[int, Tensor],
        names: TrainedNames,
        captures: Sequence[Capture],
        inputs: Sequence[Sequence[int]],
        reached: Reached,
        compiled: bool,
    ) -> Iterator[Untrained]:
        carriers = _carriers(lacking, captures, inputs)
        entries = {id(capture.tensor): at for at, capture in enumerate(captures) if capture.tensor.is_leaf}
        givers = Givers([node for call in reached.calls if not call.is_limited for node in call.nodes])
        for one in lacking:
            name, owner, held = names.of(one), names.owner(one), names.held_by(one, self.stepped)
            at, own = carriers[id(one)], entries.get(id(one))
            found = Untrained(name, "", "", ModuleRan.UNKNOWN, held, carriers=at, own=own)
            if id(one) in late:
                yield replace(found, ran=ModuleRan.CUT_SHORT, carriers=())
                continue
            if owner is None:
                yield replace(found, calls=self._steps_of(one))
                continue
            ran, module = self._ran(owner, names, reached, compiled)
            if silent := _silent(one, givers):
                ran, module, calls = ModuleRan.RETURNED_NONE, owner, silent
            elif (others := self._in_its_place(one, owner, name, ran)) is not None:
                ran, module, calls = ModuleRan.REPLACED, owner, tuple(self._calls(owner))
                found = replace(found, instead=_positions(others, captures))
            else:
                calls = tuple(self._calls(module)) if ran is ModuleRan.CALLED else ()
                is_off = bool(calls) and all(one.mode for one in calls)  # every call ran with gradients disabled
                if module is owner and package(forward_code(owner).co_filename) is None and not is_off:
                    calls, ran = tuple(mentioned_by(owner, name.rpartition(".")[2])), ModuleRan.OWN
            yield replace(found, module=names.path(module), kind=type(module).__name__, ran=ran, calls=calls)

    def _in_its_place(self, one: Tensor, owner: Module, name: str, ran: ModuleRan) -> list[Tensor] | None:
        # Return the tensors with which the module ran instead of this parameter, or tensors that contain the
        # parameter's numbers; None if there are none.
        if self.runs.ran_with_others(owner, one):
            return self.runs.instead_of(owner, name.rpartition(".")[2])
        return (self.runs.holding(one) if ran is ModuleRan.NOT_CALLED else None) or None

    def _steps_of(self, one: Tensor) -> tuple[ModuleCall, ...]:
        # Return the line of the first step of the optimizer that owns a parameter, if it is known.
        own = (line for optimizer, line in self.stepped.items() if any(each is one for each in parameters(optimizer)))
        return tuple([ModuleCall(line, line.text) for line in own if line is not None][:1])

    def _ran(self, owner: Module, names: TrainedNames, reached: Reached, compiled: bool) -> tuple[ModuleRan, Module]:
        # Did the module of a parameter run? The second result is the module that this answer is about. It is the
        # parameter's module, or one that contains it.
        chain = [owner, *names.around(owner)]  # from inside to outside
        at = next((at for at, one in enumerate(chain) if id(one) in self.runs.modules), None)
        if compiled or not self.runs.modules or any(self._is_opaque(one) for one in chain):
            return ModuleRan.UNKNOWN, owner
        idle = [one for one in chain[:at] if forward_code(one) is not IDLE]  # a ModuleList has no forward
        if idle and (at is None or package(forward_code(chain[at]).co_filename) is None):
            return ModuleRan.NOT_CALLED, idle[-1]
        if at is None:
            return ModuleRan.UNKNOWN, owner
        called = self.runs.called_with(chain[at], chain[at + 1 :])
        is_partly = reached.any_of(called.parameters())  # such as MultiheadAttention, which does not call all its parts
        return ModuleRan.PARTLY if is_partly else ModuleRan.CALLED, chain[at]

    def _is_opaque(self, module: Module) -> bool:
        # Can the module run without entering its forward in this thread?
        is_compiled = is_compiled_module(module) and not self.is_uncompiled
        return is_compiled or isinstance(module, torch.jit.ScriptModule | torch.nn.DataParallel)

    def _calls(self, module: Module) -> Iterator[ModuleCall]:
        for at, mode, switched in self.runs.of(module):
            site = call_site(at)
            if site is not None:
                yield ModuleCall(*site, mode, switched)


def _positions(tensors: Sequence[Tensor], captures: Sequence[Capture]) -> tuple[int, ...]:
    # Return, for each of these tensors that has a capture, the position of its first capture.
    firsts = {id(capture.tensor): at for at, capture in reversed([*enumerate(captures)])}
    return tuple([firsts[id(one)] for one in tensors if id(one) in firsts])


def _is_of_no_model(one: Untrained) -> bool:
    # Does an optimizer own the parameter, although no model that ran holds it?
    is_root = one.ran is ModuleRan.NOT_CALLED and "." not in one.module
    return bool(one.held_by) and (is_root or (not one.module and one.ran is ModuleRan.UNKNOWN))


def _silent(parameter: Tensor, givers: Givers) -> tuple[ModuleCall, ...]:
    # Return the lines of the custom backwards that returned None instead of a gradient of the parameter.
    edge = gradient_edge(parameter)
    functions = () if edge is None else givers.by_hand(edge.node)
    return tuple([ModuleCall(one.line, f"{one.name}()") for one in functions if one.line is not None])


def _carriers(
    lacking: Sequence[Tensor], captures: Sequence[Capture], inputs: Sequence[Sequence[int]]
) -> dict[int, tuple[int, ...]]:
    # Return, by the id of a parameter, the positions of the first captures that were computed from it: those that have
    # no input capture that was also computed from it. There are at most ``MOST`` for each parameter.
    wanted = {id(one) for one in lacking}
    leads: dict[Any, frozenset[int]] = {}
    found: dict[int, list[int]] = {at: [] for at in wanted}
    carried: list[frozenset[int]] = []
    for capture in captures:
        edge = None if capture.tensor.is_leaf else capture.edge
        carried.append(frozenset() if edge is None else _leading(edge.node, wanted, leads))
    for at, own in enumerate(carried):
        for one in own.difference(*(carried[source] for source in inputs[at])) if own else ():
            found[one].append(at)
    return {one: tuple(at[:MOST]) for one, at in found.items()}


def _leading(root: Any, wanted: set[int], known: dict[Any, frozenset[int]]) -> frozenset[int]:
    # Return the ids of the wanted leaves to which a node leads.
    pending = [root]
    while pending:
        node = pending[-1]
        if node in known:
            pending.pop()
            continue
        followers = [follower for follower, _ in node.next_functions if follower is not None]
        new = [follower for follower in followers if follower not in known]
        if new:
            pending += new
            continue
        own = {id(leaf) for leaf in graph.leaves([node])} & wanted
        known[node] = frozenset(own).union(*(known[follower] for follower in followers))
        pending.pop()
    return known[root]
