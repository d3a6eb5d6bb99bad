"""Describes properties of a matrix that make a decomposition, an inverse or their derivatives fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from backprobe.explain.nonfinite.text import say

LARGEST = 512
"""The largest number of rows or columns: a decomposition of a larger matrix would take too long."""

CLOSE = 1e-6
"""Numbers of a matrix count as equal if they differ by at most this share of its largest singular value or eigenvalue.
"""


def condition(text: str, numbers: Any, result: Any) -> Iterator[str]:
    """Yield sentences on why a matrix has no inverse, no Cholesky factor, or no logarithm of its determinant.

    In a batch, only the first matrix with a bad result is examined.
    """
    matrix = _first(numbers, result)
    if matrix is None:
        return
    is_symmetric = bool(numpy.allclose(matrix, matrix.conj().T, CLOSE, CLOSE))
    singular = numpy.linalg.svd(matrix, compute_uv=False)
    determinant = 0.0 if singular[-1] <= CLOSE * singular[0] else float(numpy.real(numpy.linalg.det(matrix)))
    if is_symmetric and (lowest := float(numpy.linalg.eigvalsh(matrix)[0])) <= CLOSE * singular[0]:
        lowest = 0.0 if abs(lowest) <= CLOSE * singular[0] else lowest
        yield say("eigenvalue", matrix=text, number=f"{lowest:.4g}")
    if determinant <= 0:
        yield say("matrix_determinant", matrix=text, number=f"{determinant:.4g}")
    if singular[-1] <= CLOSE * singular[0]:
        yield say("pivot", matrix=text, rank=int((singular > CLOSE * singular[0]).sum()), size=len(matrix))


def equal(text: str, numbers: Any, grad: Any) -> Iterator[str]:
    """Yield a sentence on the first two equal singular values or eigenvalues: their vectors have no derivative."""
    matrix = _first(numbers, grad, is_square=False)
    if matrix is None:
        return
    is_symmetric = matrix.shape[0] == matrix.shape[1] and numpy.allclose(matrix, matrix.conj().T, CLOSE, CLOSE)
    kind = "eigenvalues" if is_symmetric else "singular values"
    values = numpy.linalg.eigvalsh(matrix) if is_symmetric else numpy.linalg.svd(matrix, compute_uv=False)
    values = numpy.sort(values)
    close = [at for at, gap in enumerate(numpy.diff(values)) if gap <= CLOSE * numpy.abs(values).max()]
    if close:
        pair = (f"{one:.6g}" for one in values[close[0] : close[0] + 2])
        yield say("equal_values", matrix=text, kind=kind, numbers=" and ".join(pair))


def _first(numbers: Any, bad: Any, *, is_square: bool = True) -> Any:
    # The matrix whose result is bad; in a batch, the first one. None if it is not finite, has too many or too few rows
    # or columns, is no matrix, or is not square as wanted.
    array = numpy.asarray(numbers)
    if array.ndim < 2 or array.dtype.kind not in "fc" or not 1 < array.shape[-1] <= LARGEST:
        return None
    if not 1 < array.shape[-2] <= LARGEST or (is_square and array.shape[-1] != array.shape[-2]):
        return None
    stack, bad = array.shape[:-2], numpy.asarray(bad)
    if stack:
        if bad.shape[: len(stack)] != stack or bad.dtype.kind not in "fc":
            return None
        is_bad = (~numpy.isfinite(bad)).reshape(*stack, -1).any(-1)
        if not is_bad.any():
            return None
        array = array[tuple(numpy.argwhere(is_bad)[0])]
    return array if numpy.isfinite(array).all() else None
