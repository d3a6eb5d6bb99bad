"""PyTorch: the adapter that the rest of backprobe talks to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.capabilities import Models, ModuleObserver
from backprobe.backends.facts import Failure, GraphFacts, Options
from backprobe.backends.protocol import Backend, Blocks
from backprobe.backends.torch import errors, graph_facts, models, strategies
from backprobe.backends.torch.arrays import TorchArrays
from backprobe.backends.torch.block import TorchBlockTape
from backprobe.backends.torch.capture import Capture
from backprobe.backends.torch.recheck import TorchRecheck
from backprobe.backends.torch.tape import TorchTape


class TorchModels(Models):
    """PyTorch's modules."""

    def is_model(self, value: Any) -> bool:
        return isinstance(value, torch.nn.Module)

    def call(self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> models.TorchModelCall:
        return models.TorchModelCall(model, args, kwargs)

    def buffers(self, model: torch.nn.Module) -> Mapping[str, Tensor]:
        return dict(model.named_buffers(remove_duplicate=False))


class TorchBlocks(Blocks):
    """Blocks whose program runs backward itself."""

    def tape(self, options: Options) -> TorchBlockTape:
        return TorchBlockTape(options)

    def refuse(self, target: Any, asked: str) -> None:
        models.refuse(target, asked, kinds=(models.COMPILED,))

    def observing(self, model: torch.nn.Module, observer: ModuleObserver) -> AbstractContextManager[None]:
        return models.observing(model, observer)


class TorchBackend(Backend):
    """PyTorch's ``Backend``."""

    name = "torch"
    title = "PyTorch"
    arrays = TorchArrays()
    partials = True
    strategies = ("edges", "retain_grad", "hooks", "separate")
    models = TorchModels()
    blocks = TorchBlocks()

    def tape(self, options: Options) -> TorchTape:
        return TorchTape(options)

    def refuse(self, target: Any, asked: str) -> None:
        models.refuse(target, asked)

    def recheck(self) -> TorchRecheck:
        return TorchRecheck()

    def errors(self, error: BaseException, tape: TorchTape, captures: Sequence[Capture]) -> Failure | None:
        return errors.failure(error, captures, [target for target, *_ in tape.pending], tape.freed, tape.steps.last)

    def graph_facts(self, output: Tensor, tensor: Tensor) -> GraphFacts:
        return graph_facts.facts(output, tensor)

    def second_order(self, value: Tensor, gradient: Tensor, vector: Any) -> Tensor | None:
        return strategies.second(value, gradient, vector)


BACKEND: Backend = TorchBackend()
