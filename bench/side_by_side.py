"""Comparisons of steps with a bare one in the same run: machines are noisy, ratios of neighbours are not."""

import gc
import statistics
import time

PAIRS = 16  # an even number: the step goes first in half of them
SHORT, PAIRS_OF_SHORT = 0.010, 40  # seconds; short steps are noisier, and cheap to repeat
WARMING = 3


def once(step, clock=time.perf_counter):
    started = clock()
    step()
    return clock() - started


def least(step, rounds=7):
    """The least processor time of a few rounds, in seconds."""
    return min(once(step, time.process_time) for _ in range(rounds))


def compare(variants, bare, pairs=None, clock=time.perf_counter):
    """The median time of the bare step, and the ratio of each variant to the bare step that ran beside it.

    Before each pair the bare step runs once untimed, and in half of the pairs the variant goes first: what it costs to
    come after something else, with its memory in the caches, is then in both steps alike. The ratio is the geometric
    mean of the medians of the two halves. Where a step has one thread, ``time.process_time`` leaves out what others do
    on the machine.
    """
    for step in (*variants.values(), bare):
        for _ in range(WARMING):
            step()
    ratios, times = {name: ([], []) for name in variants}, []
    gc.collect()
    for pair in range(pairs or (PAIRS_OF_SHORT if once(bare) < SHORT else PAIRS)):
        for name, step in variants.items():
            bare()
            first, second = (bare, step) if pair % 2 else (step, bare)
            a, b = once(first, clock), once(second, clock)
            took, reference = (b, a) if pair % 2 else (a, b)
            ratios[name][pair % 2].append(took / reference)
            times.append(reference)
    return statistics.median(times), {
        name: statistics.geometric_mean(map(statistics.median, halves)) for name, halves in ratios.items()
    }


def show(ratios, beside=None, width=36):
    """Print a line for each variant, with what is to be said beside its ratio."""
    for name, ratio in ratios.items():
        print(f"  {name:{width}} × {ratio:.2f}  {(beside or {}).get(name, '')}".rstrip())
