"""Finds the first value and gradient that differ, and others whose difference is not explained by their inputs.

A value that differs is blamed if all its inputs agree. A gradient that differs is blamed if the gradients that it is
computed from agree, and so do the values used in that computation and their inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from backprobe.diff.comparison import Comparison


@dataclass(frozen=True)
class Blame:
    """The pairs to blame, by index: the first value, the first gradient, and others that differ independently of these.

    ``values`` and ``gradients`` are all pairs that differ, in the order of execution and of backward.
    """

    first: int | None
    first_backward: int | None
    amplifiers: Sequence[int] = ()
    amplifiers_backward: Sequence[int] = ()
    values: Sequence[int] = ()
    gradients: Sequence[int] = ()


def blame(comparison: Comparison) -> Blame:
    """Find the pairs that cause the differences."""
    rows = comparison.rows
    values = [at for at in comparison.order if rows[at].value.kind]
    gradients = [at for at in backward_order(comparison) if rows[at].gradient.kind]
    alone = [at for at in values if not any(rows[one].value.is_passed_on for one in comparison.sources(at))]
    alone_backward = [at for at in gradients if _is_alone(comparison, at, is_forward_same=not values)]
    is_isolated = comparison.given is not None
    first = next(iter(alone if is_isolated else values), None)
    first_backward = (gradients if first is None and not is_isolated else alone_backward)[:1]
    return Blame(
        first,
        first_backward[0] if first_backward else None,
        [at for at in alone if at != first],
        [at for at in alone_backward if at not in first_backward],
        values,
        gradients,
    )


def backward_order(comparison: Comparison) -> Sequence[int]:
    """The pairs in the order in which backward reached the first recording's entries.

    Pairs that only the second recording's backward reached are placed after the pair that it reached before them. Pairs
    that neither reached come last, in reverse order of execution.
    """
    own, others = (
        list(dict.fromkeys(of[at] for at in side.record.backward if at in of))
        for side, of in ((comparison.a, comparison.of_a), (comparison.b, comparison.of_b))
    )
    after: dict[int | None, int] = dict(zip([None, *own], own, strict=False))
    known, last = set(own), None
    for pair in others:
        if pair not in known:
            known.add(pair)
            if last in after:
                after[pair] = after[last]
            after[last] = pair
        last = pair
    return list(dict.fromkeys([*_chain(after), *reversed(comparison.order)]))


def _chain(after: Mapping[int | None, int]) -> Iterator[int]:
    # Yield the pairs of a linked list. ``after`` maps each pair to the next one, and None to the first one.
    at = after.get(None)
    while at is not None:
        yield at
        at = after.get(at)


def _is_alone(comparison: Comparison, at: int, *, is_forward_same: bool) -> bool:
    # Does a gradient differ although everything recorded that it is computed from agrees?
    rows, uses = comparison.rows, comparison.uses(at)
    if any(rows[use].gradient.is_passed_on for use in uses):
        return False
    if is_forward_same:
        return True
    around = {at}.union(*map(comparison.sources, uses))
    return not any(rows[use].value.kind for use in uses) and not any(rows[one].value.is_passed_on for one in around)
