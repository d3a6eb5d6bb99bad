"""The verdict on one call: which of its gradients are wrong, how right the others are, and what could not be judged."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy

from backprobe.backends.recheck import Operation
from backprobe.check.judge import BackwardRaises, Comparison, Judge, Unjudged
from backprobe.check.narrow import Element, Wrong, narrow

ROUNDED = 100 * 2.0**-23  # of a matrix: how far one that a program in single precision made is from symmetric
FINE = 1e-3  # of what is compared: errors that are larger should show, or it is said that they would not
HIDDEN = "an error below {:.1g} of its size would not have shown"
SPREAD = "its gradient is off by {:.1g} of its size along a random direction, and in no element by more than noise"
AGAIN = 3  # directions that are tried where one has shown a difference
SYMMETRIC = "its derivative is right for a symmetric matrix that stays one, and was judged for no other"


@dataclass
class Verdict:
    """What is known of one call when it was judged.

    ``error`` is the largest of those that were found to be no more than noise. ``unjudged`` says why nothing of the
    call was judged, ``unknown`` are the inputs towards which nothing was, ``notes`` tell what else was not. ``own`` are
    gradients that are not the derivative, of functions of the framework alone: these have them by definition.
    ``coarse`` says how coarsely an input was judged, where that is coarser than it should be.
    """

    wrong: list[Wrong] = field(default_factory=list)
    error: float = 0.0
    notes: list[str] = field(default_factory=list)
    unjudged: str = ""
    unknown: list[int] = field(default_factory=list)
    own: list[Wrong] = field(default_factory=list)
    coarse: dict[int, str] = field(default_factory=dict)


def judge(operation: Operation, known: Set[int] = frozenset()) -> Verdict:
    """Compare the derivative of a call with differences of it.

    Towards inputs of which it is known how the derivative is wrong it is not narrowed down once more.
    """
    verdict = Verdict()
    try:
        _judge(operation, verdict, known)
    except Unjudged as unjudged:
        verdict.unjudged = str(unjudged)
    except BackwardRaises as raised:
        error = raised.args[0]
        said = f"its backward pass raises {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        if operation.is_custom:
            verdict.wrong.append(Wrong(None, float("inf"), said, (), 0, 0, 0))
        else:
            verdict.unjudged = said
    return verdict


def _judge(operation: Operation, verdict: Verdict, known: Set[int]) -> None:
    judge = Judge(operation)
    directions = [judge.direction(at) for at in range(len(judge.values))]
    outline = judge.outline(directions)
    for count, why in ((outline.kinked, "at a kink, where one-sided differences differ"),
                       (outline.drowned, "so large, as those of a mask, that what moves is lost in rounding"),
                       (outline.unsettled, "where differences do not settle")):  # fmt: skip
        if count:
            verdict.notes.append(f"{count} of {len(judge.at_rest)} of its outputs are {why}")
    cotangent = judge.cotangent(
        outline.judged, [s for at, s in enumerate(outline.slopes) if at not in outline.hopeless]
    )
    gradients = judge.pull(cotangent)
    verdict.unknown = list(outline.hopeless)
    for at, direction in enumerate(directions):
        if at in outline.hopeless:
            continue
        found = outline.slopes[at]
        if not numpy.isfinite(gradients[at]).all():
            _judge_infinite(judge, at, outline.judged, gradients, verdict)
            direction = numpy.where(numpy.isfinite(gradients[at]), direction, 0.0)
            gradients[at] = numpy.where(numpy.isfinite(gradients[at]), gradients[at], 0.0)
            found = judge.slope(at, direction)
        compared = judge.compare(found, cotangent, gradients[at], direction)
        if compared.is_coarse and not compared.differs:
            compared = _compared(judge, at, outline.judged, judge.direction(at))[0]
        if not compared.differs and compared.is_blind and not judge.is_next_to_nothing(compared, cotangent):
            verdict.unknown.append(at)
        elif not compared.differs:
            verdict.error = max(verdict.error, compared.error)
            if compared.resolution > FINE and not judge.is_next_to_nothing(compared, cotangent):
                verdict.coarse[at] = HIDDEN.format(compared.resolution)
        elif not operation.is_custom and _is_right_if_symmetric(judge, at, outline.judged):
            verdict.notes.append(SYMMETRIC)
        elif wrong := _confirmed(judge, at, outline.judged, at in known):
            (verdict.wrong if operation.is_custom else verdict.own).append(wrong)
        else:
            verdict.error = max(verdict.error, compared.error)
            if compared.error > FINE:
                verdict.coarse[at] = SPREAD.format(compared.error)
    verdict.unknown.sort()
    if len(verdict.unknown) == len(directions) and not (verdict.wrong or verdict.own):
        raise Unjudged("differences of it do not settle")


def _is_right_if_symmetric(judge: Judge, at: int, judged: Any) -> bool:
    """Is the input a symmetric matrix, and the derivative right as long as it stays one?

    Such is the derivative of ``cholesky`` and ``eigh``, which read one half of the matrix and mean all of it.
    """
    value = judge.values[at]
    if value.ndim < 2 or value.shape[-1] != value.shape[-2] or value.shape[-1] < 2 or not _is_hermitian(value):
        return False
    direction = judge.direction(at)
    direction = direction + _transposed(direction)
    return not _compared(judge, at, judged, direction)[0].differs


def _compared(
    judge: Judge, at: int, judged: Any, direction: Any, widest: float | None = None
) -> tuple[Comparison, Any, list[Any]]:
    """The comparison along a direction, with a cotangent of its own; that, and the gradients for it."""
    found = judge.slope(at, direction, widest)
    cotangent = judge.cotangent(judge.known(found, judged & ~found.is_kinked), [found])
    gradients = judge.pull(cotangent)
    return judge.compare(found, cotangent, gradients[at], direction), cotangent, gradients


def _transposed(matrix: Any) -> Any:
    return numpy.conj(numpy.swapaxes(matrix, -1, -2))


def _is_hermitian(matrix: Any) -> bool:
    return bool(numpy.linalg.norm(matrix - _transposed(matrix)) <= ROUNDED * numpy.linalg.norm(matrix))


def _confirmed(judge: Judge, at: int, judged: Any, is_known: bool) -> Wrong | None:
    """Other directions, other steps: noise that was small by chance once is not so twice.

    Nor do terms cancel in all of several.
    """
    for _ in range(AGAIN):
        compared, cotangent, gradients = _compared(judge, at, judged, judge.direction(at), judge.widest * 0.7)
        if compared.differs and is_known:
            return Wrong(at, compared.error, "", (), 0, 0, judge.values[at].size)
        if compared.differs:
            return narrow(judge, at, cotangent, gradients)
    return None


def _judge_infinite(judge: Judge, at: int, judged: Any, gradients: Sequence[Any], verdict: Verdict) -> None:
    """Elements of a gradient that are not finite: right where the outputs that they move can't be judged."""
    infinite = ~numpy.isfinite(gradients[at])
    found = judge.slope(at, numpy.where(infinite, judge.direction(at), 0.0))
    count = int(infinite.sum())
    if (~judged & ((found.value != 0) | ~numpy.isfinite(found.error))).any() or not numpy.isfinite(found.error).all():
        verdict.notes.append(
            f"{count} elements of a gradient of it are not finite, and nor do differences settle there"
        )
        return
    places = numpy.argwhere(infinite)[:3]
    shown = tuple(Element(tuple(map(int, p)), gradients[at][tuple(p)].item(), float("nan"), 0.0) for p in places)
    looks = f"{count} of its elements are not finite, and the outputs move as they should"
    (verdict.wrong if judge.operation.is_custom else verdict.own).append(
        Wrong(at, float("inf"), looks, shown, count, infinite.size, infinite.size)
    )
