"""The eigenvalues of Hessians, by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backprobe.errors import UnknownName
from backprobe.findings.phrasing import plural, quoted
from backprobe.record.brief import written
from backprobe.record.names import nearest
from backprobe.show.number_table import Cells, NumberTable
from backprobe.show.text import printable


@dataclass(frozen=True, repr=False, eq=False)
class Curvature(NumberTable):
    """Eigenvalues of the Hessians of an output with respect to named values. Printing the object shows a table.

    ``result[name]`` is a NumPy array of the eigenvalues for one value, and ``eigenvalues`` has these arrays by name.
    ``eigenvectors[name]`` has the shape ``(k, *shape)``: a unit vector with the value's shape for each eigenvalue. With
    ``joint=True`` each eigenvector is split into a part for each name, and all its parts together have length 1. The
    sign is chosen so that the largest element is positive. ``sizes`` are the numbers of elements, and ``products`` the
    numbers of Hessian-vector products that were computed. ``asymmetry`` is the relative deviation of each Hessian from
    symmetry. If it exceeds rounding, a second derivative is wrong.

    >>> import torch, backprobe as bp
    >>> print(bp.curvature(lambda x, y: (x * x * y).sum(), ["x", "y"], k=2)(torch.ones(2), torch.tensor([1.0, 3.0])))
    return of <lambda>: the largest eigenvalues of its Hessian, for each value alone
    name  size  eigenvalues
    x        2         6, 2
    y        2         0, 0
    """

    target: str
    of: str
    which: str
    eigenvalues: Mapping[str, Any]
    sizes: Mapping[str, int]
    products: Mapping[str, int]
    asymmetry: Mapping[str, float]
    is_joint: bool
    notes: tuple[str, ...] = ()
    eigenvectors: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __getitem__(self, name: str) -> Any:
        """The eigenvalues for one value, in the order given by ``which``. Raises UnknownName."""
        for spelled in (name, f":{name}"):
            if spelled in self.eigenvalues:
                return self.eigenvalues[spelled]
        close = nearest(str(name), self.eigenvalues) or [*self.eigenvalues]
        raise UnknownName(
            f"there are no eigenvalues of {written(name)}",
            asked=f"result[{written(name)}]",
            found=f"eigenvalues of {quoted([*self.eigenvalues])}",
            next=f"result[{close[0]!r}]",
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self.eigenvalues)

    def __len__(self) -> int:
        return len(self.eigenvalues)

    def __contains__(self, name: object) -> bool:
        return name in self.eigenvalues

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data for ``json.dumps``, without the eigenvectors."""
        return {
            "target": self.target,
            "of": self.of,
            "which": self.which,
            "joint": self.is_joint,
            "eigenvalues": {name: found.tolist() for name, found in self.eigenvalues.items()},
            "sizes": dict(self.sizes),
            "products": dict(self.products),
            "asymmetry": dict(self.asymmetry),
            "notes": [*self.notes],
        }

    def _parts(self) -> tuple[str, Cells, Sequence[Cells], Sequence[str]]:
        of_which = "eigenvalues of largest magnitude" if self.which == "magnitude" else f"{self.which} eigenvalues"
        how = "of all values together" if self.is_joint else "for each value alone"
        heading = f"{printable(self.of)} of {self.target}: the {of_which} of its Hessian, {how}"
        rows = [
            (printable(name), f"{self.sizes[name]:,}", ", ".join(f"{number:.4g}" for number in found))
            for name, found in self.eigenvalues.items()
        ]
        return heading, ("name", "size", "eigenvalues"), rows, [f"note: {note}" for note in self.notes]

    def __repr__(self) -> str:
        return f"<backprobe.Curvature of {plural(len(self), 'Hessian')}: {self.of} of {self.target}>"
