"""A gap: a finding about steps of a run in which something has no row."""

from __future__ import annotations

from dataclasses import dataclass

from backprobe.findings.report import Finding


@dataclass(frozen=True, repr=False)
class Gap(Finding):
    """Steps in which some names have no row, or of which nothing is there where ``name`` is empty.

    ``kind`` is the reason, as a code: ``"not_called"``, ``"no_grad"``. ``steps`` are their numbers, and ``kinds`` the
    kinds of numbers that are missing: ``"value"``, ``"grad"``. ``names`` are all names of which that is true, and
    ``name`` is the first of them; ``lost`` are parameters of these modules that have no gradient in the same steps.
    """

    steps: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Gap {self.kind}: {self.headline}>"
