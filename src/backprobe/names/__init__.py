"""The verb ``names``: what can be asked of a function or model by name, before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backprobe.backends.discover import BackendName, find_program
from backprobe.errors import Unsupported
from backprobe.names.found import Names
from backprobe.probe.request import name_of, refuse_uncallable, spelled_as

__all__ = ["Names", "names"]


def names(target: Any, pattern: str | Sequence[str] = "**", *, backend: BackendName | None = None) -> Names:
    """The names that a probe of a function or model takes, read from it without calling anything; they print as a tree.

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

    Of a model they are the paths of its modules and parameters, and the locals of the forwards that are your own code
    or of the package that the model is from; of a function its arguments and locals. What stands below each other in
    the tree is one name, and braces stand for several: ``0.query.bias`` and ``{0,1}.{query,key}.bias`` can both be
    given to ``bp.probe``. A name from the source may be of a line that a run does not come to, or hold no tensor there:
    its entry then says so.

    ``pattern`` is a pattern of names, or a list of them, as in ``bp.probe``; ``"**"`` alone is everything. ``backend``
    is needed where a function does not show which it is, and is run by ``after``.

    ``bp.names(model).after(x)`` runs the model forward once, and adds what that shows: leaves of containers, functions
    that are called, modules that are made as the model first runs.

    Raises NothingMatched for a pattern that matches nothing, BadOption for what is neither a function nor a model, and
    what ``probe`` raises for a target that it refuses.
    """
    if find_program(backend, target, None) is not None:
        raise Unsupported(
            "a graph has its names in itself",
            asked=f"bp.names({name_of(target)})",
            why="names are read from the source of a function and from the modules of a model",
            next="print(bp.probe(target, session=session)(feed)), for every name",
        )
    with spelled_as(r"\(x\)", ""):
        refuse_uncallable(target, "names")
    return Names.of(target, pattern, backend)
