"""Peak memory of a step on the CPU: bytes of tensors alive at once, as PyTorch's own allocator reports them, and apart
from these the bytes of NumPy's arrays and of Python's objects.

``torch.profiler`` with ``profile_memory`` records each allocation and release of PyTorch's CPU allocator, with its size
and in order. Their running sum is exact, is the same in each run, and does not depend on malloc (resident memory does).
Python objects are not in it, nor anything that existed before the step; ``host_peak`` has those.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile


def peak(step: Callable[[], Any]) -> int:
    """The most bytes of tensors that a step has alive at once, beyond those alive before it."""
    step()  # what is made once, and kept
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        kept = step()
    del kept  # it lived to the end of the step, as a caller's would
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    alive = highest = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        alive += event.nbytes()
        highest = max(highest, alive)
    return highest


def host_peak(step: Callable[[], Any]) -> int:
    """The most bytes of NumPy's arrays and Python's objects that a step has alive at once, beyond those before it."""
    step()
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        step()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def bytes_behind(tensors: Iterable[torch.Tensor], besides: Iterable[torch.Tensor] = ()) -> int:
    """The bytes of the unique storages behind tensors, those behind others left out."""
    known = {tensor.untyped_storage()._cdata for tensor in besides}
    storages = {tensor.untyped_storage()._cdata: tensor.untyped_storage() for tensor in tensors}
    return sum(storage.nbytes() for held, storage in storages.items() if held not in known)
