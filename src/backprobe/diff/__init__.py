"""The verb ``diff``: compares two recordings, or two runs, of the same computation, and finds the first difference."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, overload

from backprobe.diff.floor import NoiseFloor
from backprobe.diff.report import DiffReport, Divergence
from backprobe.diff.trainings_report import RunDiffReport, RunDivergence
from backprobe.errors import BadOption
from backprobe.record.brief import kind, written
from backprobe.recording import Recording, opened, refuse_several
from backprobe.runs import Run

Folder = str | os.PathLike[str]


@overload
def diff(
    a: Run,
    b: Run | Folder,
    *,
    rename: Mapping[str, str] | None = None,
    noise: Run | Folder | Sequence[Run | Folder] | None = None,
) -> RunDiffReport: ...


@overload
def diff(
    a: Folder,
    b: Run,
    *,
    rename: Mapping[str, str] | None = None,
    noise: Run | Folder | Sequence[Run | Folder] | None = None,
) -> RunDiffReport: ...


@overload
def diff(
    a: Recording,
    b: Recording | Folder,
    *,
    rename: Mapping[str, str] | None = None,
    layout: Mapping[str, str | Sequence[int]] | None = None,
    noise: NoiseFloor | Recording | Folder | Sequence[Recording | Folder] | None = None,
    convention: str | tuple[str, str] | None = None,
) -> DiffReport: ...


@overload
def diff(
    a: Folder,
    b: Recording,
    *,
    rename: Mapping[str, str] | None = None,
    layout: Mapping[str, str | Sequence[int]] | None = None,
    noise: NoiseFloor | Recording | Folder | Sequence[Recording | Folder] | None = None,
    convention: str | tuple[str, str] | None = None,
) -> DiffReport: ...


@overload
def diff(
    a: Folder,
    b: Folder,
    *,
    rename: Mapping[str, str] | None = None,
    layout: Mapping[str, str | Sequence[int]] | None = None,
    noise: NoiseFloor | Recording | Run | Folder | Sequence[Recording | Run | Folder] | None = None,
    convention: str | tuple[str, str] | None = None,
) -> DiffReport | RunDiffReport: ...


def diff(
    a: Any,
    b: Any,
    *,
    rename: Mapping[str, str] | None = None,
    layout: Mapping[str, str | Sequence[int]] | None = None,
    noise: Any = None,
    convention: str | tuple[str, str] | None = None,
) -> DiffReport | RunDiffReport:
    """Compare two recordings of the same computation: a reference, and a port of it.

    >>> import torch, backprobe as bp
    >>> def f(x, w):
    ...     u = x * w
    ...     return torch.relu(u)
    >>> def g(x, w):
    ...     u = x * w.abs()
    ...     return torch.relu(u)
    >>> report = bp.diff(bp.probe(f)(2.0, -3.0), bp.probe(g)(2.0, -3.0))
    >>> report.ok, report.first.name, report.first.other
    (False, 'u', 'u')

    - ``a`` and ``b`` are recordings, or paths of saved ones, of any framework; or two runs.
    - ``rename`` maps patterns of ``a``'s names to those of ``b``: ``{"h.*": "layers.*"}`` renames ``h.0``, ``h.1`` and
      so on, and all names that begin with these.
    - ``layout`` is for weights that ``b`` stores in another order of axes than ``convention`` implies. It maps a
      pattern of names, of ``a`` or ``b``, to ``"T"``, or to the order in which the axes of ``b`` become the axes of
      ``a``.
    - ``noise`` sets measured floors: a ``NoiseFloor``, or other recordings of the program of ``a``.
    - ``convention`` is the library of the layers in ``b``: ``"pytorch"``, ``"equinox"``, ``"flax"``, ``"keras"`` or
      ``"haiku"``, or a pair of these for ``a`` and ``b``. Without it, recordings of two frameworks are compared by the
      conventions that their parameters' names suggest.

    Entries are matched by name, or by the names that ``rename`` relates. Then parameters are matched by the paths of
    their modules. The remaining entries are matched by shape, operation and inputs, if only one entry fits. Each pair
    says how it was matched.

    Values are compared in the order of execution, arguments and parameters first; then gradients in the order of
    backward. NaN equals NaN. An error counts if its root mean square or its largest element exceeds the floor. The
    default floor is the magnitude of ``a`` times the square root of eps of the coarsest dtype in the computation. If
    all inputs of a value are bitwise equal, the floor is the rounding of a single operation, if that is smaller. With
    ``noise``, the floors are measured instead, from one or several recordings of the reference that are as right as
    ``a``: run in another order, on another device, or in a lower precision. An entry's floor is then 4 times its
    largest difference among them, up to 16 times for entries with few elements, and at least the rounding of a single
    operation. An entry that none of them has keeps its default floor.

    Two runs of ``bp.watch``, or the paths of their folders, are compared by their statistics, step by step: the report
    shows the first step and name at which the trainings differ. ``noise`` then takes other runs of the first training.

    Returns a ``DiffReport``, or for runs a ``RunDiffReport``. Raises BadOption, BadName, BadRecording, BadRun, and
    NothingMatched for a rename or layout that matches nothing.
    """
    from backprobe.diff.noise import noise_of  # imported late, because it imports NumPy
    from backprobe.diff.run import compared, report_of
    from backprobe.diff.trainings_run import diff_runs, is_run

    if is_run(a) or is_run(b):
        return diff_runs(a, b, rename, layout, noise, convention)
    first, second = _taken(a, "first"), _taken(b, "second")
    return report_of(
        compared(first.record, second.record, rename, layout, noise_of(noise, first), convention=convention)
    )


def _taken(given: Any, which: str) -> Recording:
    # Return a recording; load it if a path is given. Raises BadOption for anything else, and for a recording of several
    # outputs none of which is the default.
    if isinstance(given, str | os.PathLike):
        given = opened(given)
    if isinstance(given, Recording):
        asked = "bp.diff({}, ...)" if which == "first" else "bp.diff(..., {})"
        refuse_several(given, asked.format("rec"), asked.format("rec.of({})"))
        return given
    raise BadOption(
        f"diff compares two recordings, and the {which} is {kind(given)}",
        asked=f"bp.diff({written(given)}, ...)" if which == "first" else f"bp.diff(..., {written(given)})",
        next="bp.diff(bp.probe(f)(x), bp.probe(g)(x))",
    )


__all__ = ["DiffReport", "Divergence", "RunDiffReport", "RunDivergence", "diff"]
