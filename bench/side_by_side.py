"""Comparing steps with a bare one in the same run: machines are noisy, and ratios of neighbours are not."""

import gc
import statistics
import time

PAIRS = 15


def once(step):
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


def compare(variants, bare, pairs=PAIRS):
    """The median time of the bare step, and the median ratio of each variant to the bare step that ran beside it."""
    for step in variants.values():
        for _ in range(3):
            step()
    ratios, times = {name: [] for name in variants}, []
    gc.collect()
    for pair in range(pairs):
        for name, step in variants.items():
            first, second = (bare, step) if pair % 2 else (step, bare)
            a, b = once(first), once(second)
            took, reference = (b, a) if pair % 2 else (a, b)
            ratios[name].append(took / reference)
            times.append(reference)
    return statistics.median(times), {name: statistics.median(found) for name, found in ratios.items()}
