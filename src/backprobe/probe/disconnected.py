"""Handles runs whose output depends on no differentiated value. Their recording has no gradients, but can still be
explained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from backprobe.errors import NothingToDifferentiate
from backprobe.probe.run import TargetRun
from backprobe.record.entries import GradStatus, Record
from backprobe.record.reasons import Reason
from backprobe.recording import Recording

NO_PATH = Reason("no_path")


def disconnected(record: Record | None) -> Record | None:
    """Return the record of a run whose output depends on no differentiated value. Values with a history get the status
    not_connected. None if no value has a history.
    """
    if record is None:
        return None
    cut = {
        at: replace(one, status=GradStatus.NOT_CONNECTED, why=NO_PATH)
        for at, one in enumerate(record.entries)
        if one.status is GradStatus.BACKWARD_NOT_RUN
    }
    return record.with_entries(cut) if cut else None


def recorded(
    run: TargetRun, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Recording, NothingToDifferentiate | None]:
    """Return the recording of a run. If the run's output depends on no differentiated value, also return the error that
    says so.

    Raises this error if no recorded value has a history.
    """
    try:
        return run.record(args, kwargs), None
    except NothingToDifferentiate as error:
        record = disconnected(run.cut)
        if record is None:
            raise
        return Recording(record), error
