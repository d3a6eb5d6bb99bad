"""Runs whose output depends on nothing that is differentiated: what was recorded until then can be explained."""

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
    """The record of such a run, in which values that have a history have no gradient; None where none has one."""
    if record is None or not any(one.status is GradStatus.BACKWARD_NOT_RUN for one in record.entries):
        return None
    entries = [
        replace(one, status=GradStatus.NOT_CONNECTED, why=NO_PATH) if one.status is GradStatus.BACKWARD_NOT_RUN else one
        for one in record.entries
    ]
    return replace(record, entries=tuple(entries))


def recorded(run: TargetRun, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Recording:
    """What is recorded, also where the output depends on nothing that is differentiated.

    Raises NothingToDifferentiate where nothing that was recorded has a history.
    """
    try:
        return run.record(args, kwargs)
    except NothingToDifferentiate:
        record = disconnected(run.cut)
        if record is None:
            raise
        return Recording(record)
