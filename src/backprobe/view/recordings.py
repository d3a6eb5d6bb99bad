"""Recordings that lie in the folders that are shown: each is read when it is looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from backprobe.storage.recordings import DATA, read
from backprobe.view.circuit import captions_of, circuit
from backprobe.view.shown import Shown

DEEPEST, MOST = 2, 40  # folders between one that is looked into and a recording in it; and recordings


class RecordingOnDisk:
    """A recording on disk, as what is shown of it. Raises BadRecording when it is read and is damaged."""

    kind = "circuit"

    def __init__(self, folder: Path, title: str) -> None:
        self.folder, self.title = folder, title

    @cached_property
    def _shown(self) -> Shown:
        return circuit(captions_of(read(self.folder, to="numpy")[0]))

    @property
    def data(self) -> Mapping[str, Any]:
        return self._shown.data

    @property
    def names(self) -> tuple[str, ...]:
        return self._shown.names

    @property
    def arrays(self) -> Mapping[str, Any]:
        return self._shown.arrays


def recordings_in(folders: Sequence[Path]) -> list[RecordingOnDisk]:
    """Those in some folders, and in the folders in these, by their paths."""
    patterns = ["*/" * depth + DATA for depth in range(DEEPEST + 1)]
    found = {file.parent: one for one in folders for pattern in patterns for file in sorted(one.glob(pattern))}
    return [RecordingOnDisk(folder, str(folder.relative_to(one.parent))) for folder, one in [*found.items()][:MOST]]
