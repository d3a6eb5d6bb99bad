"""The verb ``open_run``: opens the files that a watched training wrote, as series over its steps."""

from __future__ import annotations

import os
from pathlib import Path

from backprobe.record.brief import written
from backprobe.record.options import check_folder
from backprobe.runs.rows import Histogram, Step
from backprobe.runs.run import Run

__all__ = ["Histogram", "Run", "Step", "open_run"]


def open_run(folder: str | os.PathLike[str]) -> Run:
    """Open a run that ``bp.watch(model, folder)`` wrote, even while the training still runs in another process.

    >>> import tempfile, torch, backprobe as bp
    >>> model, folder = torch.nn.Linear(3, 1), tempfile.mkdtemp()
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with bp.watch(model, folder, optimizer=optimizer):
    ...     for x in torch.ones(5, 3):
    ...         model(x).sum().backward()
    ...         optimizer.step()
    >>> with bp.open_run(folder) as run:
    ...     steps, counts = run.series("weight", "grad.finite")
    >>> steps, counts
    (array([0, 1, 2, 3, 4]), array([3., 3., 3., 3., 3.]))

    An export that ``run.export(url)`` wrote can be opened too, from a folder or a URL. It is read as it is at this
    moment.

    Raises BadRun for a folder that is not a run, is damaged, or was written by another version. Raises NotInstalled for
    an export if pyarrow is missing. No code from the folder is ever run.
    """
    is_path = isinstance(folder, str | os.PathLike)
    asked = f"bp.open_run({repr(os.fspath(folder)) if is_path else written(folder)})"
    check_folder(folder, "a run is a folder, whose path is a text", asked, "bp.open_run('runs/exp1')")
    from backprobe.exports import is_export
    from backprobe.storage.runs.merged import open_ranks

    if is_export(folder):
        from backprobe.runs.exported import ExportedRun

        return ExportedRun(folder, asked)
    reader = open_ranks(Path(folder), asked)
    return Run(Path(folder), lambda: reader)
