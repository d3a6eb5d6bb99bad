"""Timings under two allocators: one that is pinned, and the one that the machine has.

glibc's malloc takes large tensors from the system with mmap and gives them back when they are freed: then each of them
costs page faults, and a step that keeps tensors alive may come out faster or slower for that alone. Pinned, memory once
taken is never given back, so that ratios tell of the work done. These variables are read when a process starts.
"""

import os
import subprocess
import sys

PINNED = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "60000000000",
    "MALLOC_TOP_PAD_": "268435456",
}
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
QUIET = {"KINETO_LOG_LEVEL": "6"}  # torch.profiler's own messages
WANTED = PINNED | ONE_THREAD | QUIET


def pin() -> None:
    """Start this very program again with the pinned allocator and one thread, unless it has them."""
    if any(os.environ.get(name) != value for name, value in WANTED.items()):
        os.execve(sys.executable, sys.orig_argv, os.environ | WANTED)


def run_with_default(script: str, *arguments: str) -> None:
    """Run a script in a process with the allocator that the machine has."""
    environment = {name: value for name, value in os.environ.items() if name not in PINNED}
    sys.stdout.flush()
    subprocess.run([sys.executable, script, *arguments], env=environment, check=True)
