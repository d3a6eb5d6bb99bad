"""Sinks: where the numbers of a watched training go in addition to its run on disk, such as a dashboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from backprobe.errors import BadOption
from backprobe.record.brief import written
from backprobe.record.options import Option, check_options
from backprobe.record.patterns import selection, texts_of

NOT_FINITE = ("nan", "posinf", "neginf")
"""Counts that are sent for a name from its first nonzero one on."""
FIELDS = ("value.rms", "grad.rms", "param.rms", "update.ratio", "logged", *(f"grad.{one}" for one in NOT_FINITE))
"""The fields that a sink receives by default."""


class Sink:
    """Where the numbers of ``bp.watch(..., sinks=[sink])`` go beside the run: subclass it, and define ``send``.

    >>> from backprobe.integrations import Sink
    >>> class Printed(Sink):
    ...     def send(self, step, numbers):
    ...         print(step, numbers)
    >>> Printed(select="0.weight", fields=["grad.rms"])
    <Printed of grad.rms of '0.weight'>

    ``select`` takes patterns of names, ``fields`` the fields of a run; of the measured steps those are sent that are
    multiples of ``every``. Counts of NaN and Inf, such as ``grad.nan``, are sent from the first on that is not 0. With
    ``alerts``, what ``run.alerts`` finds is sent as text, and the first number that the dashboard cannot store.

    A sink that raises an exception gets nothing more, and a warning says so: the training goes on. Raises BadOption and
    BadName.
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
        """The watch of a run in this folder begins. Called in the thread that trains."""

    def send(self, step: int, numbers: Mapping[str, float]) -> None:
        """The numbers of a step, by field and name: ``{"grad.rms/0.weight": 0.01}``. Called in a separate thread."""
        raise NotImplementedError

    def alert(self, step: int, text: str) -> None:
        """An alert, whose first line says what goes wrong. Called in the same thread as ``send``."""

    def stored(self, step: int, label: str, number: float) -> float:
        """The number that the dashboard holds after ``number`` was sent. Asked once for Inf, and once for one above
        3e38.
        """
        return number

    def close(self) -> None:
        """The watch is over, and nothing more will be sent. Called in the thread that trains."""

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
    """Check a sink and its options against what a run can have. Raises BadOption and BadName."""
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
