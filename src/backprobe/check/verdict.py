"""The verdict on one call: which of its gradients are wrong, the error of the others, and what was not checked."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy

from backprobe.backends.recheck import Input, RecordedCall
from backprobe.check.checked_call import MATTERS, CheckedCall, DirectionCheck, Outline, Uncheckable
from backprobe.check.differences import TRUSTED
from backprobe.check.locate_error import Element, Wrong, locate_error
from backprobe.check.second_derivative import GradientCall
from backprobe.check.text import relative_error
from backprobe.record.reasons import Reason

ROUNDED = 100 * 2.0**-23  # relative: a symmetric matrix may deviate this much if it was computed in single precision
BLIND = 0.1  # relative: if noise may be larger than this, the gradient counts as unchecked, not as right
FINE = 1e-3  # relative: if errors above this could go unnoticed, a remark says so
UNLIKE = 1e-2  # relative: forward and backward iterations of a solver may differ by this much
AGAIN = 3  # number of further directions that are tried after one direction has shown a difference


@dataclass
class Verdict:
    """The result of checking one call.

    ``error`` is the largest error of a gradient that counts as right. ``remarks`` say, for an input or for the whole
    call, what was not checked, or only coarsely, or how it was checked. ``unchecked`` is the reason if the whole call
    could not be checked.
    """

    wrong: list[Wrong] = field(default_factory=list)
    error: float = 0.0
    remarks: list[tuple[Reason, Input | None]] = field(default_factory=list)
    unchecked: Reason | None = None

    def remark(self, code: str, of: Input | None = None, /, **fields: str) -> None:
        self.remarks.append((Reason(code, fields), of))


def check_call(operation: RecordedCall | GradientCall, known: Set[Input] = frozenset()) -> Verdict:
    """Compare the derivative of a call with finite differences.

    For inputs in ``known``, an error was already located in an earlier call and is not located again.
    """
    verdict = Verdict()
    try:
        _check(CheckedCall(operation), verdict, known)
    except Uncheckable as uncheckable:
        if operation.is_custom and uncheckable.reason.code == "backward_raises":
            verdict.wrong.append(Wrong(None, float("inf"), (uncheckable.reason,)))
        else:
            verdict.unchecked = uncheckable.reason
    verdict.remarks += [(note, None) for note in operation.notes]
    return verdict


def _check(call: CheckedCall, verdict: Verdict, known: Set[Input]) -> None:
    directions = [call.direction(at) for at in range(len(call.values))]
    outline = call.outline(directions)
    for code, count in outline.left_out.items():
        if count:
            verdict.remark(code, count=f"{count}", of=f"{len(call.at_rest)}")
    settled = [at for at in range(len(directions)) if at not in outline.hopeless]
    cotangent = call.cotangent(outline.checked, [outline.slopes[at] for at in settled])
    gradients = call.pull(cotangent)
    unsettled = set(outline.hopeless)
    for at in settled:
        checked = _InputCheck(call, at, call.inputs[at], outline, cotangent, verdict)
        if not checked.compare(gradients[at], directions[at], call.inputs[at] in known):
            unsettled.add(at)
    for at in sorted(unsettled):
        verdict.remark("input_unsettled", call.inputs[at])
    has_own = any(reason.code == "not_derivative" for reason, _ in verdict.remarks)
    if len(unsettled) == len(directions) and not (verdict.wrong or has_own):
        raise Uncheckable("no_convergence")


@dataclass(frozen=True)
class _InputCheck:
    # A comparison for one call and one of its inputs.
    call: CheckedCall
    at: int
    input: Input
    outline: Outline
    cotangent: Any
    verdict: Verdict

    def compare(self, gradient: Any, direction: Any, is_known: bool) -> bool:
        # Compare the analytic and the numeric derivative along one direction, and along further directions if they
        # differ. Returns False if noise hides too much.
        call, found = self.call, self.outline.slopes[self.at]
        finite = numpy.isfinite(gradient)
        if not finite.all():
            self._check_infinite(gradient)
            direction, gradient = numpy.where(finite, direction, 0.0), numpy.where(finite, gradient, 0.0)
            found = call.slope(self.at, direction)
        compared = call.compare(found, self.cotangent, gradient, direction)
        if compared.resolution > TRUSTED * MATTERS and not compared.differs:
            compared = self._compared(call.direction(self.at))[0]
        if compared.differs:
            self._check_difference(compared, is_known)
            return True
        hides = not call.is_next_to_nothing(compared, self.cotangent)
        if compared.resolution > BLIND and hides:
            return False
        self._agree(compared)
        if compared.resolution > FINE and hides:
            self.verdict.remark("coarse", self.input, size=f"{compared.resolution:.1g}")
        return True

    def _agree(self, compared: DirectionCheck) -> None:
        self.verdict.error = max(self.verdict.error, compared.error)

    def _check_difference(self, compared: DirectionCheck, is_known: bool) -> None:
        if not self.call.operation.is_custom and self._is_right_if_symmetric():
            self.verdict.remark("symmetric_only")
        elif wrong := self._confirmed(is_known):
            self._blame(wrong)
        else:
            self._agree(compared)
            if compared.error > FINE:
                self.verdict.remark("spread", self.input, size=f"{compared.error:.1g}")

    def _blame(self, wrong: Wrong) -> None:
        # Report that a gradient is not the derivative. For a hand-written backward pass that is an error, for a
        # framework operation only a remark: frameworks define some gradients differently on purpose.
        operation = self.call.operation
        if operation.is_custom or wrong.is_by_hand:
            self.verdict.wrong.append(wrong)
        else:
            own = "may_have_rule" if operation.may_have_rules else "not_derivative"
            self.verdict.remark(
                "derives_off" if operation.derives else own, wrong.input, size=relative_error(wrong.error)
            )

    def _is_right_if_symmetric(self) -> bool:
        # Is the input a symmetric matrix, and the derivative right along symmetric directions? This happens for
        # ``cholesky`` and ``eigh``, which read only one half of the matrix.
        value = self.call.values[self.at]
        if value.ndim < 2 or value.shape[-1] != value.shape[-2] or value.shape[-1] < 2 or not _is_hermitian(value):
            return False
        direction = self.call.direction(self.at)
        return not self._compared(direction + _transposed(direction))[0].differs

    def _compared(self, direction: Any, widest: float | None = None) -> tuple[DirectionCheck, Any, Sequence[Any]]:
        # Compare along a direction with a new cotangent. Returns the comparison, the cotangent, and the gradients for
        # it.
        call = self.call
        found = call.slope(self.at, direction, widest)
        cotangent = call.cotangent(call.known(found, self.outline.checked & ~found.is_kinked), [found])
        gradients = call.pull(cotangent)
        return call.compare(found, cotangent, gradients[self.at], direction), cotangent, gradients

    def _confirmed(self, is_known: bool) -> Wrong | None:
        # Repeat the comparison along other directions, with other steps. Return the error if it shows again; otherwise
        # None. A difference that was only noise is unlikely to appear again, and terms that cancel along one direction
        # are unlikely to cancel along several.
        call, at = self.call, self.at
        for _ in range(AGAIN):
            direction = call.direction(at)
            compared, cotangent, gradients = self._compared(direction, call.widest * 0.7)
            if compared.differs:
                known = Wrong(self.input, compared.error)
                wrong = known if is_known else locate_error(call, at, cotangent, gradients)
                return wrong and self._transposed(wrong, compared, call.push(at, cotangent, direction))
        return None

    def _transposed(self, wrong: Wrong, compared: DirectionCheck, forward: float | None) -> Wrong:
        # Backward should be the transpose of the forward derivative. If it is not, somebody wrote it by hand.
        if forward is None or abs(compared.analytic - forward) <= UNLIKE * compared.scale:
            return wrong
        is_right = not replace(compared, analytic=forward).differs
        look = Reason("not_transpose_of_right") if is_right else Reason("not_transpose")
        return replace(wrong, looks=wrong.looks or (look,), is_by_hand=True)

    def _check_infinite(self, gradient: Any) -> None:
        # Handle elements of a gradient that are infinite or NaN. They only get a remark if some output that depends on
        # these elements cannot be checked.
        infinite = ~numpy.isfinite(gradient)
        found = self.call.slope(self.at, numpy.where(infinite, self.call.direction(self.at), 0.0))
        count = int(infinite.sum())
        are_left_out = ~self.outline.checked & ((found.value != 0) | ~numpy.isfinite(found.error))
        if are_left_out.any() or not numpy.isfinite(found.error).all():
            self.verdict.remark("gradient_not_finite", self.input, count=f"{count}")
            return
        places = numpy.argwhere(infinite)[:3]
        shown = tuple(Element(tuple(map(int, p)), gradient[tuple(p)].item(), float("nan"), 0.0) for p in places)
        looks = (Reason("not_finite_elements", {"count": f"{count}"}),)
        self._blame(Wrong(self.input, float("inf"), looks, shown, count, infinite.size, infinite.size))


def _transposed(matrix: Any) -> Any:
    return numpy.conj(numpy.swapaxes(matrix, -1, -2))


def _is_hermitian(matrix: Any) -> bool:
    return bool(numpy.linalg.norm(matrix - _transposed(matrix)) <= ROUNDED * numpy.linalg.norm(matrix))
