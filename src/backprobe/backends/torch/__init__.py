"""The PyTorch backend: the adapter through which the rest of backprobe uses PyTorch."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.capabilities import Models
from backprobe.backends.captures import Captures
from backprobe.backends.facts import Failure
from backprobe.backends.memory import MemoryHearing
from backprobe.backends.protocol import Backend, Blocks
from backprobe.backends.torch import empty_grads, errors, models
from backprobe.backends.torch.arrays import TorchArrays
from backprobe.backends.torch.block import TorchBlockTape
from backprobe.backends.torch.bridging import TorchBridges, bridged
from backprobe.backends.torch.capture import Capture
from backprobe.backends.torch.edits import EDITS
from backprobe.backends.torch.graph_facts import facts
from backprobe.backends.torch.guarding import TorchGuards
from backprobe.backends.torch.heard_births import hearing_births
from backprobe.backends.torch.private import NAMES
from backprobe.backends.torch.recheck import TorchRecheck
from backprobe.backends.torch.second_order import hessian
from backprobe.backends.torch.state import TorchState
from backprobe.backends.torch.structure import named
from backprobe.backends.torch.tape import TorchTape
from backprobe.backends.torch.transforms import refuse_inside
from backprobe.backends.torch.trials import TorchTrials
from backprobe.backends.torch.uncompiled import uncompiled
from backprobe.backends.torch.useless import TorchUselessGradients
from backprobe.backends.torch.variations import TorchVariations
from backprobe.backends.torch.vectorized import TorchVectorized
from backprobe.backends.watches import Watches


class TorchModels(Models):
    """Implements ``Models`` for PyTorch's modules."""

    call = models.TorchModelCall
    replaces_parameters = True
    libraries = frozenset({"torch"})

    def is_model(self, value: Any) -> bool:
        return isinstance(value, torch.nn.Module)

    def in_place(self, model: torch.nn.Module) -> Collection[str]:
        return [path for path, module in model.named_modules() if vars(module).get("inplace")]

    def parameters(self, model: torch.nn.Module) -> Mapping[str, Tensor]:
        return dict(named(model.named_parameters))

    def buffers(self, model: torch.nn.Module) -> Mapping[str, Tensor]:
        return dict(named(model.named_buffers))


class TorchBlocks(Blocks):
    differentiates_at_end = True
    """If the program has not run backward inside the block, the tape can run it at the end."""

    tape = TorchBlockTape
    observing = staticmethod(models.observing)

    def refuse(self, target: Any, asked: str) -> None:
        models.refuse(target, asked, kinds=(models.COMPILED,))


class TorchBackend(Backend):
    """Implements ``Backend`` for PyTorch."""

    name = "torch"
    title = "PyTorch"
    edits = EDITS
    arrays = TorchArrays()
    partials = True
    strategies = ("edges", "retain_grad", "hooks", "separate")
    models = TorchModels()
    blocks = TorchBlocks()
    tape = TorchTape
    made = staticmethod(lambda one: isinstance(one, torch.jit.ScriptFunction) or models.is_compiled(one))
    guards = TorchGuards()
    recheck = TorchRecheck
    state = TorchState
    trials = TorchTrials
    hear_births = staticmethod(hearing_births)
    variations = TorchVariations
    vectorized = TorchVectorized()
    bridged = staticmethod(bridged)
    bridges = TorchBridges
    uncompiled = staticmethod(uncompiled)
    useless = TorchUselessGradients
    useless_in_call = staticmethod(lambda call: TorchUselessGradients().of_call(call))
    graph_facts = staticmethod(facts)
    second_order = True
    gone = NAMES.gone
    hessian = staticmethod(hessian)

    @cached_property
    def watches(self) -> Watches:
        from backprobe.backends.torch.watches import TorchWatches  # imports PyTorch's compiler: a second or two

        return TorchWatches()

    @staticmethod
    def memory(model: Any) -> MemoryHearing:
        from backprobe.backends.torch.memory import TorchMemory  # imports PyTorch's compiler, too

        return TorchMemory(model)

    def refuse(self, part: Any, asked: str) -> None:
        refuse_inside(asked)
        models.refuse(part, asked)

    def errors(self, error: BaseException, tape: TorchTape, captures: Sequence[Capture]) -> Failure | str | None:
        of_none = empty_grads.failure(error, captures, tape.passed)
        written = [target for target, *_ in tape.pending]
        return of_none or errors.failure(error, captures, written, tape.freed, tape.steps.last, tape.start)

    @property
    def captures(self) -> Captures:
        from backprobe.backends.torch.captured_calls import TorchCaptures

        return TorchCaptures()


for capability in NAMES.gone:
    setattr(TorchBackend, capability, None)
BACKEND: Backend = TorchBackend()
