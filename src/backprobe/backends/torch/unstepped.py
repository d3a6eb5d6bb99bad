"""Parameters that get gradients and that nothing trains: no optimizer owns them, and their numbers stay as they are.

A program may step parameters by hand, at any time and by any library. So the numbers are compared from one block to a
later one in which the same optimizer stepped, or from one step to a later one of the same block, as where a trainer
iterates: a whole iteration of the training lies between them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from backprobe.backends.torch.capture import ListenedLeaf, memory, version
from backprobe.backends.torch.tape import quiet
from backprobe.backends.torch.tensors import grad_of, is_plain, is_zero
from backprobe.backends.torch.trained_names import TrainedNames
from backprobe.backends.torch.unregistered import all_optimizers, held_by

State = tuple[object, ...]
"""Facts of a tensor, of which almost every write changes one: its place and version, and two sums of its numbers."""

Seen = dict[int, tuple[ref[Tensor], State]]
"""By id: parameters that no optimizer owned, with their states."""

BEFORE: WeakKeyDictionary[Optimizer, Seen] = WeakKeyDictionary()
"""By optimizer: the parameters that got gradients in the last block in which it stepped, and that no optimizer owned.
Each has its state at the end of that block.
"""


class FirstSteps:
    """The states of parameters after the first step of each optimizer in a block.

    The parameters are those of modules that ran, if they have a gradient and no optimizer that has stepped owns them.
    """

    def __init__(self) -> None:
        self.before: dict[Optimizer, Seen] = {}
        self.again: set[Optimizer] = set()

    def stepped(self, optimizer: Optimizer, ran: Iterable[Module]) -> None:
        if optimizer in self.before:
            self.again.add(optimizer)
            return
        held = held_by([*self.before, optimizer])
        own = (one for module in ran for one in module._parameters.values() if one is not None and id(one) not in held)
        self.before[optimizer] = {id(one): (ref(one), _state(one)) for one in own if _is_trained(one)}

    def of(self, optimizer: Optimizer) -> Seen:
        """Return the states after its first step, if there was a later one in this block."""
        return self.before.get(optimizer, {}) if optimizer in self.again else {}


def unstepped(
    names: TrainedNames, leaves: Mapping[int, Tensor], stepped: Collection[Optimizer], first: FirstSteps
) -> list[Tensor]:
    """Return the parameters that got gradients in this block and in an earlier one, or at several steps of this block,
    and that nothing has stepped.

    ``leaves`` are all leaves that got gradients, ``first`` has the states after the first steps. The list is
    empty if the optimizers train no parameter of a module, as when they train an input. Parameters of modules in
    evaluation mode, those with hooks, which may step them, and those with a gradient of 0 are left out.
    """
    held = held_by(stepped)
    if not any(at in names.owners for at in leaves.keys() & held):
        return []
    found = [one for at, one in leaves.items() if at not in held and _may_be_meant(one, names)]
    known = held_by(one for _, one in names.variables if isinstance(one, Optimizer)) if found else set()
    found = [one for one in found if id(one) not in known]
    known = held_by(all_optimizers()) if found else known
    states = {id(one): (one, _state(one)) for one in found if id(one) not in known}
    earlier = [seen for one in stepped for seen in (BEFORE.get(one, {}), first.of(one))]
    unchanged = {at for seen in earlier for at in _unchanged(seen, states)}
    for optimizer in stepped:
        BEFORE[optimizer] = {at: (ref(one), state) for at, (one, state) in states.items()}
    return [one for at, (one, _) in states.items() if at in unchanged]


def _may_be_meant(one: Tensor, names: TrainedNames) -> bool:
    # Is the tensor a parameter of a module in training mode, without a hook of the program, which may step it, and with
    # a gradient that is not known to be 0?
    owner, gradient = names.owners.get(id(one)), grad_of(one)
    if owner is None or not owner[1].training or _has_users_hooks(one) or one._post_accumulate_grad_hooks:
        return False
    return is_plain(one) and one.is_floating_point() and (gradient is None or not is_zero(gradient))


def _is_trained(one: Tensor) -> bool:
    return one.requires_grad and one.is_leaf and is_plain(one) and one.is_floating_point() and one.grad is not None


def _has_users_hooks(one: Tensor) -> bool:
    # Has the program set hooks? The block sets its own on parameters that were made while it is open.
    hooks = (one._backward_hooks or {}).values()
    return any(type(getattr(hook, "__self__", None)) is not ListenedLeaf for hook in hooks)


def _unchanged(before: Seen, now: Mapping[int, tuple[Tensor, State]]) -> Iterable[int]:
    return [
        at for at, (one, state) in now.items() if at in before and before[at][0]() is one and before[at][1] == state
    ]


def _state(one: Tensor) -> State:
    with quiet(), torch.no_grad():
        sums = [float(one.sum(dtype=torch.float64)), float(one.abs().sum(dtype=torch.float64))]
    return memory(one), version(one), *sums
