"""Parameters that are not trained at the start of a training. Their names are stored in the run, next to its
statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.nn import Module

from backprobe.backends.torch import optimizer_steps
from backprobe.backends.torch.watched_selection import unwrapped, watched_parameters
from backprobe.record.names import quote_path


def untrained(model: Module, optimizers: Sequence[Any]) -> dict[str, list[str]]:
    """Return the names of parameters that require no gradient (``frozen``), and, if there are optimizers, of others
    that none of them owns (``left_out``).
    """
    names = {parameter: quote_path(path) for path, parameter in reversed(watched_parameters(unwrapped(model)))}
    held = {parameter for optimizer in optimizers for parameter in optimizer_steps.parameters(optimizer)}
    trained = [(one, name) for one, name in reversed(names.items()) if one.requires_grad]
    return {
        "frozen": [name for one, name in reversed(names.items()) if not one.requires_grad],
        "left_out": [name for one, name in trained if optimizers and one not in held],
    }
