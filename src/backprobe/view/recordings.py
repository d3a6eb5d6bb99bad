"""Recordings in the folders of a viewer, including those saved later. Each recording is read when it is first shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from time import monotonic

from backprobe.storage.recordings import DATA, read
from backprobe.view.circuit import captions_of, circuit
from backprobe.view.shown import Shown

DEEPEST = 2  # how many folders deep recordings are searched
LOOK = 0.5  # seconds between two searches


class RecordingOnDisk:
    """A recording on disk, to be shown. It is read when its data is first needed."""

    kind = "circuit"

    def __init__(self, folder: Path, title: str) -> None:
        self.folder, self.title, self.saved = folder, title, _saved(folder)
        self._read: tuple[int, Shown] | None = None

    @property
    def shown(self) -> Shown:
        """The data of the recording, cached until it is saved again. Raises BadRecording if it is damaged."""
        saved = _saved(self.folder)
        if self._read is None or self._read[0] != saved:
            self._read = saved, circuit(captions_of(read(self.folder, to="numpy")[0]))
        return self._read[1]


class ShownRecordings:
    """The recordings in some folders and their subfolders. A recording keeps its place when others appear."""

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self.folders = folders
        self.known: dict[Path, RecordingOnDisk] = {}
        self.looked, self.lock = -LOOK, Lock()

    def all(self) -> list[RecordingOnDisk]:
        """All recordings found so far, in order of appearance. The folders are searched again after a while."""
        with self.lock:
            if monotonic() - self.looked >= LOOK:
                for folder, around in _recordings_in(self.folders).items():
                    if folder not in self.known:
                        self.known[folder] = RecordingOnDisk(folder, str(folder.relative_to(around.parent)))
                for one in self.known.values():
                    one.saved = _saved(one.folder)
                self.looked = monotonic()
            return list(self.known.values())


def _saved(folder: Path) -> int:
    # A number that changes when the recording is saved again; 0 if it no longer exists.
    try:
        return (folder / DATA).stat().st_mtime_ns
    except OSError:
        return 0


def _recordings_in(folders: Sequence[Path]) -> dict[Path, Path]:
    # For each recording's folder, the folder that is shown. Folders whose names begin with a dot are left out, because
    # they are being written.
    patterns = ["*/" * depth + DATA for depth in range(DEEPEST + 1)]
    found = {file.parent: one for one in folders for pattern in patterns for file in sorted(one.glob(pattern))}
    return {
        folder: around
        for folder, around in found.items()
        if not any(part.startswith(".") for part in folder.relative_to(around).parts)
    }
