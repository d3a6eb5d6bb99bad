"""Opens a rank's file for reading: while it is written, after its writer was killed, and in a read-only folder.

SQLite reads a write-ahead log through a file of shared memory beside it. If that file cannot be created, as in a
read-only folder, there are two cases. A database that was closed properly is opened with ``immutable=1``, because
nobody changes it. A database whose log is not empty is copied first.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from backprobe.errors import BadRun
from backprobe.storage.runs.layout import APPLICATION, OLDEST, VERSION

BUSY = 30.0  # seconds to wait for a database that another process has locked
OF_SYSTEM = frozenset(
    {
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
    }
)


def opened(path: Path, asked: str) -> tuple[sqlite3.Connection, str]:
    """A connection for reading, and how it was opened: ``live``, ``immutable`` or ``copy``. Raises BadRun."""
    # "rw" also rolls back an unfinished transaction of a killed writer, if there is no write-ahead log
    for how in ("mode=ro", "mode=rw"):
        try:
            return _checked(_connected(path, how), path, asked), "live"
        except sqlite3.OperationalError as error:
            if not any(words in str(error) for words in ("unable to open", "readonly")):
                raise not_a_run(path, asked, error) from error
    beside = [path.with_name(path.name + ending) for ending in ("-wal", "-journal")]
    unwritten = [one for one in beside if one.exists() and one.stat().st_size]
    try:
        if unwritten:
            return _checked(_copied([path, *unwritten]), path, asked), "copy"
        return _checked(_connected(path, "immutable=1"), path, asked), "immutable"
    except (sqlite3.DatabaseError, OSError) as error:
        raise not_a_run(path, asked, error) from error


def _connected(path: Path, how: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(path.resolve()))}?{how}",
        uri=True,
        timeout=BUSY,
        isolation_level=None,
        check_same_thread=False,
    )


def _copied(files: Sequence[Path]) -> sqlite3.Connection:
    folder = tempfile.mkdtemp(prefix="backprobe-run-")
    for one in files:
        shutil.copyfile(one, Path(folder) / one.name)
    connection = sqlite3.connect(
        Path(folder) / files[0].name, isolation_level=None, check_same_thread=False, factory=_Connection
    )
    weakref.finalize(connection, shutil.rmtree, folder, ignore_errors=True)
    return connection


class _Connection(sqlite3.Connection):
    """A connection that can be weakly referenced."""


def _checked(connection: sqlite3.Connection, path: Path, asked: str) -> sqlite3.Connection:
    try:
        check_version(connection, path, asked, OLDEST)
    except sqlite3.OperationalError:
        connection.close()
        raise
    except sqlite3.DatabaseError as error:
        connection.close()
        raise not_a_run(path, asked, error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def check_version(connection: sqlite3.Connection, path: Path, asked: str, oldest: int = VERSION) -> None:
    """Raise BadRun if a database is not a run, or if its layout is newer than ours or older than ``oldest``."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = version_of(connection)
    if application != APPLICATION:
        raise BadRun(
            f"{path} is not a run",
            asked=asked,
            found="a database of another program",
            next="the folder that bp.watch(model, folder) was given",
        )
    if not oldest <= version <= VERSION:
        raise BadRun(
            f"{path} was written by another version of backprobe",
            asked=asked,
            found=f"layout {version}, and this backprobe has layout {VERSION}",
            next="read it with the backprobe that wrote it",
        )


def version_of(connection: sqlite3.Connection) -> int:
    """The version of the file's layout."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def of_system(error: Exception) -> OSError | None:
    """The system's error behind an error of SQLite; None if the error is about the file's content."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code, without SQLite's extension
    if code == sqlite3.SQLITE_FULL:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return OSError(str(error)) if code in OF_SYSTEM else None


def closed(path: Path, asked: str) -> BadRun:
    """The error for reading a file that was closed."""
    return BadRun(
        f"this run of {path.parent} is closed",
        asked=asked,
        found="a use of it after run.close(), or after its block",
        next=f"with {asked} as run: around all that reads it",
    )


def not_a_run(path: Path, asked: str, error: Exception) -> BadRun:
    """The error for a file that cannot be read."""
    return BadRun(
        f"{path} cannot be read: it is incomplete or damaged, or not a run",
        asked=asked,
        found=str(error),
        next="the folder that bp.watch(model, folder) was given, or a copy made with its .sqlite-wal file",
    )
