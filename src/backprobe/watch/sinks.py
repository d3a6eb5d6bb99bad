"""Sinks receive the numbers of a watched training in addition to its run on disk. A sink may be a dashboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from backprobe.errors import BadOption
from backprobe.record.brief import written
from backprobe.record.options import Option, check_options
from backprobe.record.patterns import selection, texts_of

NOT_FINITE = ("nan", "posinf", "neginf")
"""Counts that are sent for a name only after they were nonzero for the first time."""
FIELDS = ("value.rms", "grad.rms", "param.rms", "update.ratio", "logged", *(f"grad.{one}" for one in NOT_FINITE))
"""The fields that a sink receives by default."""


class Sink:
    """Receives the numbers of ``bp.watch(..., sinks=[sink])`` besides the run. Subclass it, and define ``send``.

    >>> from backprobe.integrations import Sink
    >>> class Printed(Sink):
    ...     def send(self, step, numbers):
    ...         print(step, numbers)
    >>> Printed(select="0.weight", fields=["grad.rms"])
    <Printed of grad.rms of '0.weight'>

    ``select`` takes patterns of names, and ``fields`` the fields of a run. Of the measured steps, only multiples of
    ``every`` are sent. A count of NaN or Inf, such as ``grad.nan``, is first sent when it is not 0. With ``alerts``,
    the findings of ``run.alerts`` are sent as text, and also remarks on the first numbers that the dashboard cannot
    store.

    If a sink raises an exception, it receives nothing more, and a warning is given. The training continues. Raises
    BadOption and BadName.
    """

    select: str | Sequence[str] | None = None
    fields: Sequence[str] = FIELDS
    every: int = 1
    alerts: bool = True

    def __init__(
        self,
        *,
        select: str | Sequence[str] | None = None,
        fields: Sequence[str] = FIELDS,
        every: int = 1,
        alerts: bool = True,
    ) -> None:
        self.select, self.fields, self.every, self.alerts = select, fields, every, alerts
        check(self)

    def open(self, folder: Path) -> None:
        """Called in the training's thread when the watch of a run begins, with the folder of the run."""

    def send(self, step: int, numbers: Mapping[str, float]) -> None:
        """Receive the numbers of a step, by field and name: ``{"grad.rms/0.weight": 0.01}``. Called in a
        separate thread.
        """
        raise NotImplementedError

    def alert(self, step: int, text: str) -> None:
        """Receive an alert. The first line of its text names the problem. Called in the same thread as ``send``."""

    def stored(self, step: int, label: str, number: float) -> float:
        """The number that the dashboard stores when ``number`` is sent. With ``alerts``, it is called for the first
        infinite number, and for the first finite one above 3e38 in magnitude.
        """
        return number

    def close(self) -> None:
        """Called in the training's thread when the watch has ended. Nothing is sent afterwards."""

    def __repr__(self) -> str:
        names = "" if self.select is None else f" of {self.select!r}"
        return f"<{type(self).__name__} of {', '.join(self.fields)}{names}>"


SINKS = Option(
    "sinks",
    Sink,
    None,
    "[TensorBoardSink('tb')], after from backprobe.integrations.tensorboard import TensorBoardSink",
    says="a list of sinks",
    why="a sink is of a class of backprobe.integrations, or of a subclass of its Sink",
)
OF_SINK = (
    Option(
        "fields",
        object,
        lambda fields: not isinstance(fields, str) and bool(fields),
        "['grad.rms']",
        says="a list of fields of a run",
    ),
    Option("every", int, 1, "10"),
)


def check(sink: object) -> None:
    """Check a sink and its options against the possible contents of a run. Raises BadOption and BadName."""
    from backprobe.record.statistics import STATISTICS
    from backprobe.storage.runs.merged import LOGGED, RATIO

    SINKS.check(sink, "bp.watch(..., sinks=[...])")
    assert isinstance(sink, Sink)
    check_options(vars(sink), OF_SINK)
    asked = f"{type(sink).__name__}(...)"
    for field in sink.fields:
        if field not in (LOGGED, RATIO) and str(field).rpartition(".")[2] not in STATISTICS:
            raise BadOption(
                f"{written(field)} is not a field of a run",
                asked=asked,
                found=f"the statistics are {', '.join(STATISTICS)}",
                next="fields=['value.rms', 'grad.rms']",
            )
    if sink.select is not None:
        selection(tuple(texts_of(sink.select)), False)
