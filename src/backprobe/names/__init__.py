"""The verb ``names``: lists the names that can be requested from a function or model, before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backprobe.backends.discover import BackendName, find_program
from backprobe.errors import Unsupported
from backprobe.names.found import Names
from backprobe.probe.request import asked_as, refuse_uncallable, spelled_as

__all__ = ["Names", "names"]


def names(target: Any, pattern: str | Sequence[str] = "**", *, backend: BackendName | None = None) -> Names:
    """List the names that a probe of a function or model accepts, without calling it; they print as a tree.

    >>> import torch, backprobe as bp
    >>> class Attention(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.query, self.key = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
    ...     def forward(self, x):
    ...         scores = self.query(x) @ self.key(x).transpose(-1, -2)
    ...         return scores.softmax(-1) @ x
    >>> model = torch.nn.Sequential(Attention(), Attention())
    >>> print(bp.names(model))
    Sequential: 19 names, 4 of them read from the source
    ├─ {0,1}
    │  ├─ .{query,key}
    │  │  └─ .{weight,bias}
    │  └─ :{x,scores} (from source)
    └─ :return
    >>> bp.names(model, "*.key.weight")[:]
    ('0.key.weight', '1.key.weight')

    For a model these are the paths of its modules and parameters, and the local variables of those forwards that belong
    to your own code or to the package of the model. For a function they are its arguments and local variables. A name
    is the path from the root of the tree, and braces combine several names: ``0.query.bias`` and
    ``{0,1}.{query,key}.bias`` can both be given to ``bp.probe``. A name from the source may belong to a line that does
    not run, or its value may not be a tensor. Its entry in a recording then says so.

    Each module and parameter is listed once, by the path that a recording prints. A module's further paths are listed
    with the remark ``same as ...``, without what is below them; those with a private segment are only counted, in a
    note. ``bp.probe`` accepts all of these paths.

    ``pattern`` is a pattern of names or a list of patterns, as in ``bp.probe``; ``"**"`` selects everything.
    ``backend`` is only needed if ``after`` runs a function whose arguments do not show its framework.

    ``bp.names(model).after(x)`` runs the model's forward once, and adds the names that only exist in a run: leaves of
    containers, called functions, and modules that the model creates in its first run.

    Raises NothingMatched for a pattern that matches nothing, BadOption for a target that is neither a function nor a
    model, Unsupported for a graph of TensorFlow, and the errors of ``probe`` for a target that it does not accept.
    """
    if find_program(backend, target, None) is not None:
        raise Unsupported(
            "a graph has its names in itself",
            asked=f"bp.names({asked_as(target)})",
            why="names are read from the source of a function and from the modules of a model",
            next="print(bp.probe(target, session=session)(feed)), for every name",
        )
    with spelled_as(r"\(x\)", ""):
        refuse_uncallable(target, "names")
    return Names.of(target, pattern, backend)
