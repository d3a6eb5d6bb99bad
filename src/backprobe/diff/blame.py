"""Blame: the first value and the first gradient that differ, and what else differs by itself.

A value is blamed by itself where all that it was computed from agrees. A gradient is blamed by itself where the
gradients of all values that it flows back from agree, and so do these values and all that they were computed from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from backprobe.diff.comparison import Comparison


@dataclass(frozen=True)
class Blame:
    """The numbers of pairs: the first value and gradient to blame, and the others that differ alone.

    ``values`` and ``gradients`` are all that differ, in the order of execution and of backward.
    """

    first: int | None
    first_backward: int | None
    amplifiers: Sequence[int] = ()
    amplifiers_backward: Sequence[int] = ()
    values: Sequence[int] = ()
    gradients: Sequence[int] = ()


def blame(comparison: Comparison) -> Blame:
    """Find what is to blame."""
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
    """The pairs in the order in which backward came to the first recording's.

    Those that it came to in the second recording alone stand behind what it came to before them there.
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
    # What comes after each other, from what comes after None on.
    at = after.get(None)
    while at is not None:
        yield at
        at = after.get(at)


def _is_alone(comparison: Comparison, at: int, *, is_forward_same: bool) -> bool:
    # Does a gradient differ though all that it is computed from agrees, as far as it is recorded?
    rows, uses = comparison.rows, comparison.uses(at)
    if any(rows[use].gradient.is_passed_on for use in uses):
        return False
    if is_forward_same:
        return True
    around = {at}.union(*map(comparison.sources, uses))
    return not any(rows[use].value.kind for use in uses) and not any(rows[one].value.is_passed_on for one in around)
