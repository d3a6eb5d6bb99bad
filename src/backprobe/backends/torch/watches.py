"""Implements watching a model of PyTorch during its training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from backprobe.backends.torch.statistics import fetched, row_of
from backprobe.backends.torch.tape import quiet
from backprobe.backends.torch.untrained_parameters import untrained
from backprobe.backends.torch.watched_scripts import WatchedScript
from backprobe.backends.torch.watching import TorchWatching
from backprobe.backends.watches import ScriptListener, StepListener, Watches, Watching, WatchOptions
from backprobe.record.statistics import Row


class TorchWatches(Watches):
    """Implements ``Watches`` for PyTorch."""

    def watching(self, model: Module, options: WatchOptions, listener: StepListener, asked: str) -> Watching:
        return TorchWatching(model, options, listener, asked)

    def untrained(self, model: Module, options: WatchOptions) -> Mapping[str, list[str]]:
        return untrained(model, options.optimizers)

    def script(self, listener: ScriptListener) -> AbstractContextManager[None]:
        return WatchedScript(listener).listening()

    def rank(self) -> int:
        distributed = torch.distributed
        return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0

    def scalar(self, number: Any) -> Any:
        if not isinstance(number, Tensor):
            number = torch.tensor(float(number), dtype=torch.float64)
        if number.numel() != 1 or number.is_complex():
            raise TypeError("not one number")
        with quiet(), torch.no_grad():
            wide = number.detach().reshape(1)
            return row_of(wide if wide.is_floating_point() else wide.double())

    def later(self, rows: Mapping[int, Any]) -> Callable[[], Mapping[int, Row]]:
        return fetched(rows)
