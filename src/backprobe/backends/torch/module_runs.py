"""The modules that a block ran, known from their frames: the parameters that they held, and the lines that called
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile, islice, takewhile
from types import FrameType
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node
from torch.nn import Module

from backprobe.backends.call_sites import Instruction, switch
from backprobe.backends.result_uses import dropped
from backprobe.backends.torch import graph
from backprobe.backends.torch.applied import APPLY
from backprobe.backends.torch.checkpoints import AGAIN, without_history
from backprobe.backends.torch.tape import quiet
from backprobe.backends.torch.trained_names import HeldParameter
from backprobe.backends.torch.transforms import whole
from backprobe.backends.user_lines import callers, users_frames
from backprobe.record.source import Source
from backprobe.record.training import APPLIED, CHECKPOINT, ModuleCall
from backprobe.source.frames import name_in
from backprobe.source.user_code import package

MOST = 8  # the most calls stored for one module, frames stored for one call, and calls with unused results


class ModuleRuns:
    """The modules whose forward was entered, and the calls in the user's code that led to it."""

    def __init__(self) -> None:
        self.modules: dict[int, Module] = {}  # the modules that ran, by id
        # by id: modules with a method in the user's code that called another module, such as a ``training_step``
        self.callers: dict[int, Module] = {}
        # by module, then by place and mode: the instructions that led to each call; without a mode, that place alone
        self.calls: dict[int, dict[tuple[Instruction, str], dict[tuple[Instruction, ...], None]]] = {}
        # calls of custom functions whose result is never used, with the nodes of their arguments
        self.dropped: dict[ModuleCall, list[Node]] = {}
        self.held: dict[int, HeldParameter] = {}  # by id: the tensors that modules had as parameters when they ran

    def entered(self, frame: FrameType) -> None:
        """Called when a function named ``forward``, or the ``setup_context`` of a custom function, is entered."""
        code = frame.f_code
        module = name_in(frame, code.co_varnames[0]) if code.co_argcount else None
        if isinstance(module, BackwardCFunction):
            self._applied(module, frame)
        if not isinstance(module, Module):
            return
        self.modules[id(module)] = module
        for name, one in module._parameters.items():
            if isinstance(one, Tensor):
                known: ref[Tensor] = ref(one)
                self.held[id(one)] = HeldParameter(
                    known, module, name, ref(whole(one)) if type(one) is Tensor else known
                )
        calls = self.calls.setdefault(id(module), {})
        if len(calls) >= MOST:
            return
        mode, below = ("", frame.f_back) if torch.is_grad_enabled() else without_history(frame)
        users = users_frames(frame.f_back if below is frame else below)
        called = next(users, None)
        if called is None:
            return
        at = called.f_code, called.f_lasti
        caller = name_in(called, called.f_code.co_varnames[0]) if called.f_code.co_argcount else None
        if isinstance(caller, Module):
            self.callers[id(caller)] = caller
        alike = calls.setdefault((at, mode), {})
        if not alike or (mode and len(alike) < MOST):
            around = [at, *((one.f_code, one.f_lasti) for one in users)] if mode else [at]
            alike[tuple(around[:MOST])] = None

    def _applied(self, node: Any, frame: FrameType) -> None:
        # A custom function is applied to ``node.next_functions``. They are kept if its result is never used.
        #
        # A function that writes to its arguments returns these arguments, so it is left out.
        if any(node.needs_input_grad) and "mark_dirty" not in frame.f_code.co_names and len(self.dropped) < MOST:
            above = islice(dropwhile(lambda one: one.f_code is APPLY, callers(frame.f_back)), MOST)
            users = takewhile(lambda one: package(one.f_code.co_filename) is None, above)
            called = dropped([(one.f_code, one.f_lasti) for one in users])
            if called is not None:
                self.dropped[called] = [follower for follower, _ in node.next_functions if follower is not None]

    def ran_with_others(self, owner: Module, parameter: Tensor) -> bool:
        """Did the module run, but always with another tensor instead of its parameter, as in a functional call?"""
        return id(owner) in self.modules and not self.has_held(parameter)

    def dropped_leaves(self) -> dict[ModuleCall, set[int]]:
        """Return the calls of custom functions whose results are never used, each with the ids of the leaves that flow
        into it.
        """
        nodes = self.dropped.items()
        return {call: {id(leaf) for leaf in graph.leaves(graph.all_nodes(given))} for call, given in nodes}

    def has_held(self, tensor: Tensor) -> bool:
        """Did a module that ran have this tensor as its parameter?"""
        known = self.held.get(id(tensor))
        return known is not None and known.tensor() is tensor

    def replaced(self) -> set[int]:
        """Return the ids of parameters whose modules ran with other tensors instead, as in functional calls."""
        own = [(one, one.module._parameters.get(one.name)) for one in self.held.values()]
        return {
            id(tensor)
            for held, tensor in own
            if tensor is not None and tensor is not held.tensor() and not self.has_held(tensor)
        }

    def leaves_of(self, module: Module, name: str) -> list[Tensor]:
        """Return the leaves that a module had as this parameter when it ran, if they still exist."""
        held = (one.tensor() for one in self.held.values() if one.module is module and one.name == name)
        return [one for one in held if one is not None and one.is_leaf]

    def instead_of(self, module: Module, name: str) -> list[Tensor]:
        """Return the tensors with which a module ran instead of its own parameter, if they still exist."""
        own = module._parameters.get(name)
        held = (one.whole() for one in self.held.values() if one.module is module and one.name == name)
        return [one for one in held if one is not None and one is not own]

    def holding(self, parameter: Tensor) -> list[Tensor]:
        """Return the tensors that modules used as parameters and that contain this parameter's numbers as a row, as in
        a stacked ensemble.
        """
        others = {id(one): one for held in [*self.held.values()] for one in self.instead_of(held.module, held.name)}
        return [one for one in others.values() if _is_row_of(parameter, one)]

    def called_with(self, module: Module, around: Sequence[Module]) -> Module:
        """Return the outermost of the modules around this one that the program's own code calls at one of the same
        places; the module itself if there is none.
        """
        places = self.calls.get(id(module), {}).keys()
        return next((one for one in reversed(around) if places & self.calls.get(id(one), {}).keys()), module)

    def has_recorded(self, module: Module) -> bool:
        """Did the module run with gradients enabled, or inside a checkpoint that ran with gradients enabled?"""
        return any(not mode or mode == CHECKPOINT for _, mode, _ in self.of(module))

    def of(self, module: Module) -> list[tuple[Instruction, str, Source | None]]:
        """Return the calls of a module. Each has the mode that prevented a history, or "", and the line that set this
        mode, if known. A call is there once for each of these lines.

        If a checkpoint has not recomputed its part, it is unknown whether code inside it disables gradients. Such calls
        have no mode, and are returned only if there are no others.
        """
        found = self.calls.get(id(module), {})
        calls = [(at, mode, around) for (at, mode), each in found.items() for around in each]
        known = [one for one in calls if one[1] != AGAIN] or [(at, "", around) for at, _, around in calls]
        off = [(at, mode, switch(around) if mode else None) for at, mode, around in known]
        said = [
            (at, "torch.no_grad()" if mode in (CHECKPOINT, APPLIED) and line else mode, line) for at, mode, line in off
        ]
        return [*dict.fromkeys(said)]

    def is_put_off(self, module: Module) -> bool:
        """Did the module run only inside checkpoints that have not recomputed it?"""
        return {mode for _, mode in self.calls.get(id(module), {})} == {AGAIN}


def _is_row_of(parameter: Tensor, other: Tensor) -> bool:
    # Does another tensor contain the numbers of a parameter as one of its rows?
    if parameter.shape != other.shape[1:] or not parameter.numel() or other.device != parameter.device:
        return False
    with quiet(), torch.no_grad():
        return bool((other == parameter).flatten(1).all(1).any())
