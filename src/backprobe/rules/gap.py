"""A gap: a finding about steps of a run in which something was not recorded."""

from __future__ import annotations

from dataclasses import dataclass

from backprobe.findings.report import Finding


@dataclass(frozen=True, repr=False)
class Gap(Finding):
    """Steps in which some names have no row. If ``name`` is empty, nothing at all was recorded in these steps.

    ``kind`` is the reason as a code, such as ``"not_called"`` or ``"no_grad"``. ``steps`` are the numbers of the steps,
    and ``kinds`` the kinds of numbers that are missing: ``"value"``, ``"grad"``. ``names`` are all names with this gap,
    and ``name`` is the first one. ``lost`` are parameters of the named modules that have no gradient in the same steps.
    """

    steps: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Gap {self.kind}: {self.headline}>"
