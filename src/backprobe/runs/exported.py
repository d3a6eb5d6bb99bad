"""An exported run. It is unpacked on first use, except for SQL, which reads the export itself."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backprobe.exports.places import Place, is_url
from backprobe.exports.unpacked import Dataset
from backprobe.runs.run import Run
from backprobe.storage.runs.merged import RunReader, open_ranks


class ExportedRun(Run):
    """The export of a run, opened by ``bp.open_run``, in the state that it had then."""

    def __init__(self, path: str | os.PathLike[str], asked: str) -> None:
        self._asked, self._dataset = asked, Dataset(Place(path, asked))
        self._removed: weakref.finalize[..., Any] | None = None
        where: Any = path if is_url(path) else Path(path)  # a ``Path`` would merge the two slashes of a URL
        super().__init__(where, self._unpack)

    def _unpack(self) -> RunReader:
        folder = Path(tempfile.mkdtemp(prefix="backprobe-run-"))
        self._removed = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._dataset.unpack(folder)
        return open_ranks(folder, self._asked)

    @property
    def _files(self) -> Path:
        return Path(self._reader.ranks[self.ranks[0]].path.parent)

    def _tables(self, asked: str) -> dict[str, Any]:
        return {"rows": self._dataset.rows(), "steps": self._dataset.steps()}

    def _reread(self, tables: Mapping[str, Any]) -> None:
        for name, table in tables.items():
            with self._dataset.reading(name):
                for _ in table.to_batches():
                    pass

    def close(self) -> None:
        if "_reader" in vars(self):
            super().close()
        if self._removed is not None:
            self._removed()
