"""Losses that a ``GradScaler`` has scaled. If a gradient overflows, the scaler skips the step and lowers its scale."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import islice
from traceback import walk_tb
from typing import Any
from weakref import ref

from torch import Tensor
from torch.amp import GradScaler

from backprobe.backends.patching import listening
from backprobe.record.containers import leaves

SCALER = "backprobe: scaled by"
"""The key under which the node of a scaled loss stores its scaler."""
STEPPED = "STEPPED"
"""The name of the stage in which a scaler keeps an optimizer that has stepped, until the scaler is updated."""
NEAR = 64  # nodes searched from the root, because losses that were scaled one by one may have been summed


@contextmanager
def scales_noted(noted: Callable[[Callable[[], bool]], None] = lambda handles: None) -> Iterator[None]:
    """Inside this context, scaled losses are remembered.

    ``noted`` is called when a loss is scaled, with a function that says whether the scaler handles an overflow. On a
    GPU that function waits for the device.
    """
    with ExitStack() as patched:
        for kind in scalers("scale"):
            patched.enter_context(listening(kind, "scale", partial(_scale, noted)))
        yield


def scalers(method: str) -> list[type]:
    """Return those of ``GradScaler`` and its subclasses that define their own method of this name."""
    found, pending = list[type](), [GradScaler]
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        if method in vars(kind):
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
                node: Any = leaf.grad_fn  # its stub has ``metadata`` as a method
                node.metadata[SCALER] = ref(scaler)  # kept for as long as the node exists
    return scaled


def not_updated(error: BaseException) -> str | None:
    """Return a note on the error that a scaler's optimizer has stepped since the last update; None for other errors.

    The scaler's own state says so: it is in the frame that raised the error.
    """
    steps = {vars(kind)["step"].__code__ for kind in scalers("step")}
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    if not frames or frames[-1].f_code not in steps:
        return None
    state = frames[-1].f_locals.get("optimizer_state")
    stage = state.get("stage") if isinstance(state, dict) else None
    if getattr(stage, "name", "") != STEPPED:
        return None
    return (
        "backprobe: the scaler was not updated after the last step\n"
        "  next:  scaler.update(), once after scaler.step(optimizer)"
    )


def is_handled(roots: Sequence[Tensor]) -> bool:
    """Did backward start at a loss with a scale above 1? Then its scaler handles an overflow by a lower scale. At a
    scale of 1 or less, scaling cannot be the cause of an overflow.
    """
    scaler = scaler_of([root.grad_fn for root in roots if root.grad_fn is not None])
    return scaler is not None and bool(scaler.get_scale() > 1)


def scaler_of(roots: Sequence[Any]) -> GradScaler | None:
    """Return the scaler of the loss to which one of these nodes belongs. If a node belongs to a sum of losses, return
    the scaler of one of these losses. None if there is no scaler within ``NEAR`` nodes.
    """
    nodes = [*roots]
    for node in islice(nodes, NEAR):  # the list grows during the loop
        found = node.metadata.get(SCALER)
        scaler: GradScaler | None = None if found is None else found()
        if scaler is not None:
            return scaler
        nodes += [follower for follower, _ in node.next_functions if follower is not None]
    return None
