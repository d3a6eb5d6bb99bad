"""PyTorch: the adapter that the rest of backprobe talks to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from backprobe.backends.facts import Description, Failure, GraphFacts, Options, Summary
from backprobe.backends.protocol import ModuleObserver
from backprobe.backends.torch import errors, graph_facts, models, nonfinite, strategies, tensors
from backprobe.backends.torch.block import ListeningTape
from backprobe.backends.torch.capture import Capture
from backprobe.backends.torch.recheck import TorchCalls
from backprobe.backends.torch.tape import TorchTape
from backprobe.record.nonfinite import Nonfinite


class TorchBackend:
    """PyTorch's ``Backend``."""

    name = "torch"

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, Tensor)

    def is_model(self, value: Any) -> bool:
        return isinstance(value, torch.nn.Module)

    def open(self, options: Options) -> TorchTape:
        return TorchTape(options)

    def open_block(self, options: Options) -> ListeningTape:
        return ListeningTape(options)

    def calls(self) -> TorchCalls:
        return TorchCalls()

    def refuse(self, target: Any, asked: str) -> None:
        models.refuse(target, asked)

    def refuse_in_block(self, target: Any, asked: str) -> None:
        models.refuse(target, asked, kinds=(models.COMPILED,))

    def observing(self, model: torch.nn.Module, observer: ModuleObserver) -> AbstractContextManager[None]:
        return models.observing(model, observer)

    def second(self, value: Tensor, gradient: Tensor, vector: Any) -> Tensor | None:
        return strategies.second(value, gradient, vector)

    def explain_error(self, error: BaseException) -> str | None:
        return None  # ``failure`` says more

    def failure(self, error: BaseException, tape: TorchTape, captures: Sequence[Capture]) -> Failure | None:
        return errors.failure(error, captures, [target for target, *_ in tape.pending], tape.freed, tape.steps)

    def graph_facts(self, output: Tensor, tensor: Tensor) -> GraphFacts:
        return graph_facts.facts(output, tensor)

    def program(self, target: Any, session: Any) -> None:
        return None

    def call(self, model: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> models.TorchModelCall:
        return models.TorchModelCall(model, args, kwargs)

    def buffers(self, model: torch.nn.Module) -> Mapping[str, Tensor]:
        return dict(model.named_buffers(remove_duplicate=False))

    def describe(self, tensor: Tensor) -> Description:
        return tensors.describe(tensor)

    def summarize(self, tensor: Tensor) -> Summary | None:
        return tensors.summarize(tensor)

    def nonfinite(self, tensors: Sequence[Tensor]) -> list[Nonfinite | None]:
        return nonfinite.nonfinite(tensors)

    def numbers(self, tensor: Tensor) -> Any:
        return tensors.numbers(tensor)

    def to_text(self, tensor: Tensor) -> str:
        return tensors.to_text(tensor)

    def encode(self, tensor: Tensor, blobs: dict[str, Any], seen: dict[Any, str]) -> dict[str, Any]:
        return tensors.encode(tensor, blobs, seen)

    def decode(self, layout: Mapping[str, Any], blobs: Mapping[str, Any]) -> Tensor:
        return tensors.decode(layout, blobs)


BACKEND = TorchBackend()
