"""Losses that a ``GradScaler`` has scaled. If a gradient overflows, the scaler skips the step and lowers its scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from weakref import ref

from torch import Tensor
from torch.amp import GradScaler

from backprobe.backends.patching import listening
from backprobe.record.containers import leaves

SCALER = "backprobe: scaled by"
"""The key under which the node of a scaled loss stores its scaler."""
NEAR = 64  # the most nodes searched from the root; several scaled losses may be summed there


@contextmanager
def scales_noted(noted: Callable[[Callable[[], bool]], None] = lambda handles: None) -> Iterator[None]:
    """Inside this context, scaled losses are remembered.

    ``noted`` is called when a loss is scaled, with a function that says whether the scaler handles an overflow. On a
    GPU that function waits for the device.
    """
    with ExitStack() as patched:
        for kind in _scalers():
            patched.enter_context(listening(kind, "scale", partial(_scale, noted)))
        yield


def _scalers() -> list[type]:
    # Return the classes of scalers that define their own ``scale``.
    found, pending = list[type](), [GradScaler]
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        if "scale" in vars(kind):
            found.append(kind)
    return found


def _scale(
    noted: Callable[[Callable[[], bool]], None], following: Callable[..., Any], scaler: GradScaler, outputs: Any
) -> Any:
    scaled = following(scaler, outputs)
    if scaler.is_enabled():
        noted(lambda: scaler.get_scale() > 1)
        for _, leaf in leaves(scaled):
            if isinstance(leaf, Tensor) and leaf.grad_fn is not None:
                _noted(leaf.grad_fn)[SCALER] = ref(scaler)
    return scaled


def _noted(node: Any) -> dict[str, Any]:
    # Return the data that is stored on a node for as long as the node exists.
    kept: dict[str, Any] = node.metadata
    return kept


def is_handled(roots: Sequence[Tensor]) -> bool:
    """Did backward start at a loss whose scaler can still lower its scale? At a scale of 1 or less, scaling is not the
    cause.
    """
    nodes = [root.grad_fn for root in roots if root.grad_fn is not None]
    for at in range(NEAR):
        if at >= len(nodes):
            break
        found = _noted(nodes[at]).get(SCALER)
        scaler = None if found is None else found()
        if scaler is not None:
            return bool(scaler.get_scale() > 1)
        nodes += [follower for follower, _ in nodes[at].next_functions if follower is not None]
    return False
