"""A module to be called again: a copy of it without its hooks, whose parameters are given anew for each call."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

HOOKS = (
    "_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks",
)  # fmt: skip
"""Where a module keeps hooks. They are the user's, may do anything, and were called when the module itself was."""


class ModuleCopy:
    """A copy of a module, taken before it was called."""

    def __init__(self, original: torch.nn.Module, module: torch.nn.Module) -> None:
        self.module = module
        self.wanted = [path for path, parameter in original.named_parameters() if parameter.requires_grad]
        self.buffers = {path: buffer.clone() for path, buffer in module.named_buffers()}
        self.dtypes = {path: held.dtype for path, held in (*module.named_parameters(), *module.named_buffers())}

    @classmethod
    def of(cls, original: torch.nn.Module) -> ModuleCopy | Any:
        """A copy, or a sentence that says why there can be none."""
        memo: dict[int, Any] = {}
        for part in original.modules():
            for name in HOOKS:
                hooks = vars(part).get(name)
                if hooks is not None:
                    memo[id(hooks)] = OrderedDict()
        try:
            module = deepcopy(original, memo)
        except Exception as error:  # noqa: BLE001  # whatever is in it may refuse to be copied
            return f"the module cannot be copied: {str(error).splitlines()[0]}"
        for parameter in module.parameters():
            parameter.grad = None
        return cls(original, module)

    def become(self, double: bool) -> None:
        """Compute in double precision, or in its own."""
        with torch.no_grad():
            for path, held in (*self.module.named_parameters(), *self.module.named_buffers()):
                if held.is_floating_point():
                    held.data = held.data.to(torch.float64 if double else self.dtypes[path])

    def parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Those that are differentiated, by path."""
        own = dict(self.module.named_parameters())
        return ((path, own[path].detach()) for path in self.wanted)

    def fill(self, values: Mapping[str, Tensor]) -> list[Tensor]:
        """Put these values into the parameters, and the buffers back as they were. Returns the parameters."""
        own = dict(self.module.named_parameters())
        with torch.no_grad():
            for path, value in values.items():
                own[path].copy_(value)
            for path, buffer in self.module.named_buffers():
                buffer.copy_(self.buffers[path])
        return [own[path] for path in self.wanted]
