"""What is held of one tensor at one version, from the moment it gets its name until backward has run."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from backprobe.backends.torch.tensors import Geometry
from backprobe.record import GradStatus


@dataclass(eq=False)
class Capture:
    """One tensor at one version."""

    tensor: Tensor
    version: int
    alias: Tensor | None
    edge: GradientEdge | None = None
    status: GradStatus = GradStatus.OK  # why there is no edge
    reason: str = ""
    opaque: str = ""  # why the gradient at the edge would not be this version's
    snapshot: Tensor | None = None
    exposed: bool = False
    geometry: Geometry | None = None  # set where the edge is that of the base, and this is a view of it
    writes: list[ViewWrite] = field(default_factory=list)


@dataclass(eq=False)
class ViewWrite:
    """A write through a view: autograd passes its gradient to the base, around the view that it went through."""

    node: Node  # the base's CopySlices node
    geometry: Geometry  # of the view written


def version(tensor: Tensor) -> int:
    """The version counter; an inference tensor has none, and cannot be written outside of inference mode."""
    return 0 if tensor.is_inference() else int(tensor._version)
