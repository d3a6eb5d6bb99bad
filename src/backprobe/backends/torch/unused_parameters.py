"""Names of the parameters that errors of PyTorch speak of by number, or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import FrameType

from torch import Tensor
from torch.nn import Module
from torch.nn.parallel import DistributedDataParallel

from backprobe.backends.torch.trained_names import TrainedNames
from backprobe.findings.phrasing import listed

INDICES = re.compile(r"did not receive grad for rank \d+: ([\d ]+)")


def of_reduction(error: BaseException) -> str | None:
    """The note on DDP's error that some parameters got no gradient in the iteration before."""
    said = INDICES.search(str(error))
    model = next((one for one in _modules(error) if isinstance(one, DistributedDataParallel)), None)
    if said is None or model is None:
        return None
    names = {id(one): name for name, one in model.module.named_parameters() if one.requires_grad}
    ordered = [*names.values()]
    found = [ordered[int(at)] for at in said[1].split() if int(at) < len(ordered)]
    return (
        f"backprobe: parameters that got no gradient in the iteration before: {listed(found, 20)}\n"
        "  next:  use them in what the loss is computed from, freeze them with requires_grad_(False),\n"
        "         or find_unused_parameters=True; backprobe explain on the script names the line"
    )


def named(tensors: Sequence[Tensor], error: BaseException) -> str:
    """The names of parameters that were not used in a graph; empty where they have none."""
    names = TrainedNames(_modules(error), {})
    found = [name for one in tensors if not (name := names.of(one)).startswith("a parameter of shape")]
    return listed(found, 20) if found else ""


def _modules(error: BaseException) -> Iterator[Module]:
    # The modules whose methods an error came through.
    step = error.__traceback__
    while step is not None:
        frame: FrameType = step.tb_frame
        own = frame.f_locals.get("self")
        if isinstance(own, Module):
            yield own
        step = step.tb_next
