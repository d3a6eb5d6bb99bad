"""Names of parameters that PyTorch's errors identify by a number or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from traceback import walk_tb

from torch import Tensor
from torch.nn import Module
from torch.nn.parallel import DistributedDataParallel

from backprobe.backends.torch.checkpoints import BACKWARD
from backprobe.backends.torch.trained_names import TrainedNames
from backprobe.findings.phrasing import listed

TWICE = re.compile(r"with name (\S+) has been marked as ready twice")
INDICES = re.compile(r"did not receive grad for rank \d+: ([\d ]+)")


def of_reduction(error: BaseException) -> str | None:
    """Return a note on DDP's error that some parameters got no gradient in the previous iteration; None for other
    errors, or if the model is not found.
    """
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


def ready_twice(error: BaseException) -> str | None:
    """Return a note on DDP's error that a parameter got its gradient twice; None for other errors or causes.

    DDP first considered the parameter unused, because the graph that it traverses does not contain the operations
    inside a reentrant checkpoint.
    """
    said, frames = TWICE.search(str(error)), [frame for frame, _ in walk_tb(error.__traceback__)]
    places = [
        place for frame in frames for place in (frame.f_locals, getattr(frame.f_locals.get("self"), "__dict__", {}))
    ]
    held = (value for place in places for value in place.values())
    models = [one for one in held if isinstance(one, DistributedDataParallel) and one.find_unused_parameters]
    is_inside = any(frame.f_code in BACKWARD for frame in frames)
    if said is None or not is_inside or not any(said[1] in dict(one.module.named_parameters()) for one in models):
        return None
    return (
        f"backprobe: {said[1]!r} is inside a reentrant checkpoint, where find_unused_parameters=True takes it for "
        "unused: its gradient came after that\n"
        "  next:  checkpoint(..., use_reentrant=False),\n"
        "         or leave out find_unused_parameters=True, if every parameter is used"
    )


def named(tensors: Sequence[Tensor], error: BaseException) -> str:
    """Return the names of parameters that were not used in a graph; an empty text if they have none."""
    names = TrainedNames(_modules(error), {})
    found = [name for one in tensors if not (name := names.of(one)).startswith("a parameter of shape")]
    return listed(found, 20) if found else ""


def _modules(error: BaseException) -> Iterator[Module]:
    # Yield the modules whose methods an error passed through.
    frames = walk_tb(error.__traceback__)
    return (own for frame, _ in frames if isinstance(own := frame.f_locals.get("self"), Module))
