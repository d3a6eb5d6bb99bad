"""The run that users read: the files that a watched training wrote, as series over its steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from backprobe.errors import BadOption, installed
from backprobe.findings.phrasing import listed, plural
from backprobe.findings.report import Report
from backprobe.markup import facts, joined, shown
from backprobe.record.brief import cut, written
from backprobe.record.renamed import renamed
from backprobe.record.typed import ExportFormat, RunKind
from backprobe.runs.asked import check_kind, field_kind, is_number, row_name, unknown_step
from backprobe.runs.rows import Histogram, Step

if TYPE_CHECKING:  # importing backprobe imports no NumPy
    from backprobe.charts.report import RunReport
    from backprobe.rules.judge import Judge
    from backprobe.storage.runs.merged import RunReader


class Run:
    """A run on disk, opened for reading. Each access also sees the rows written since the last one.

    The numbers of a name cover all of its calls in a step, in all processes. A *field* is a kind of numbers and a
    statistic, such as ``grad.rms``; ``run.fields`` lists all fields.
    """

    def __init__(self, folder: Path, opened: Callable[[], RunReader]) -> None:
        self.folder = folder
        """The folder of the run. For an export that was opened from a URL, the text of the URL."""
        self._opened = opened
        self._judge: Judge | None = None  # judged the steps so far

    @cached_property
    def _reader(self) -> RunReader:
        return self._opened()

    @property
    def _files(self) -> Path:
        # The folder with the files that are read.
        return self.folder

    # Properties that describe the run.

    @property
    def steps(self) -> Any:
        """The numbers of the steps that have a row, in order: a NumPy array of int64."""
        return self._reader.info()["step"]

    @property
    def skipped(self) -> Any:
        """The steps that a ``GradScaler`` skipped."""
        info = self._reader.info()
        return info["step"][info["skipped"] == 1]

    @property
    def names(self) -> list[str]:
        """Every name that has a row in some step, in the order of the model."""
        return list(dict.fromkeys(name for name, _ in self._reader.rows()))

    @property
    def fields(self) -> list[str]:
        """Every field that at least one name has."""
        return self._reader.fields()

    @property
    def attempts(self) -> list[Mapping[str, Any]]:
        """Each start of the training: its time, its options, versions, and how the file was written."""
        return [attempt.facts for attempt in self._reader.attempts()]

    @property
    def ranks(self) -> list[int]:
        """The numbers of the processes that wrote files."""
        return list(self._reader.ranks)

    # Methods that return numbers.

    def series(self, name: str, field: str) -> tuple[Any, Any]:
        """The steps in which a name has a field, and its numbers: int64 of shape (n,), float64 of shape (n,).

        A step is included even if its statistic is NaN, such as the rms of a value that is NaN everywhere.

        Raises UnknownName, AmbiguousName, BadName and BadOption.
        """
        asked = f"run.series({cut(written(name))}, {cut(written(field))})"
        kind = self._kind(field, asked)
        full = self._resolve(name, asked)
        self._check_kind(full, kind, asked)
        steps, numbers = self._reader.field([full], field)
        _, counts = self._reader.field([full], f"{kind}.count")
        both = min(len(steps), len(numbers[0]), len(counts[0]))
        is_there = counts[0][:both] > 0
        return steps[:both][is_there], numbers[0][:both][is_there]

    def grid(self, field: str) -> tuple[list[str], Any, Any]:
        """The names that have a field, the steps, and the field for all of these: float64 of shape (names, steps).

        The number is NaN if a name has no row in a step. Raises BadOption.
        """
        kind = self._kind(field, f"run.grid({cut(written(field))})")
        names = self._reader.names_of(kind)
        return names, *self._reader.field(names, field)

    def at(self, step: int) -> Step:
        """The rows of a step: a mapping from names to mappings from fields to numbers. Raises UnknownStep."""
        found = self._reader.at(int(step)) if is_number(step) else None
        if found is None:
            raise unknown_step(step, self.steps.tolist())
        info, attempt, rows = found
        return Step(info, attempt, rows, self._resolve, self._why_not)

    @renamed("run.histogram(name{})", {"kind": "what={}"})
    def histogram(self, name: str, what: RunKind = "grad") -> Histogram:
        """Counts of a name's numbers by magnitude, in the steps in which ``bp.Pace(histogram=n)`` counted them.

        ``what`` is ``"value"``, ``"grad"``, ``"param"``, ``"update"`` or ``"grad_backward"``. Raises UnknownName,
        AmbiguousName, BadName and BadOption.
        """
        asked = f"run.histogram({cut(written(name))}, {cut(written(what))})"
        kinds = [one for one in dict.fromkeys(one for _, one in self._reader.rows()) if one != "logged"]
        if what not in kinds:
            raise BadOption(
                f"this run has no kind {cut(written(what))}",
                asked=asked,
                found=listed(kinds),
                next="run.fields, for every kind with its statistics",
            )
        from backprobe.record.exponents import table_of

        full = self._resolve(name, asked)
        self._check_kind(full, what, asked)
        found = self._reader.exponents(full, what)
        return Histogram([*found], *table_of([*found.values()]), [one.smallest for one in found.values()])

    @property
    def alerts(self) -> Report:
        """Problems of this training, such as vanishing gradients, dead units, a flat loss, or the first NaN.

        The findings of this report are ``Alert`` objects. Each has its step, its number, the threshold that the number
        passed, and a fact with the rule and the threshold's source. The threshold is 0 if the rule has none, as for
        NaN. The report is computed from the files as they are at this moment. The first access reads all of them, and
        later accesses usually read only new steps.
        """
        from backprobe.rules import alerts
        from backprobe.rules.judge import Judge

        if self._judge is None:
            self._judge = Judge(self._reader)
        return alerts(self._reader, judge=self._judge)

    @property
    def gaps(self) -> Report:
        """Steps and names without rows, with the reasons, such as a module that was not called, or a step without a
        backward.

        The findings of this report are ``Gap`` objects. Each has the ``name``, the ``steps``, the missing ``kinds`` of
        numbers, and the reason as a code, ``kind``. Steps that ``every=`` leaves out are not gaps.
        """
        from backprobe.rules.gaps import gaps

        return gaps(self._reader)

    def report(self, name: str | None = None, step: int | None = None) -> RunReport:
        """The run in 80 columns: alerts, the tree of its modules over the steps, and gradients across depth.

        With ``name`` it shows every field of one name, with ``step`` all names at one step, and with both the name at
        the step. ``backprobe report RUN`` prints it. Raises UnknownName, AmbiguousName, BadName and UnknownStep.
        """
        from backprobe.charts import data
        from backprobe.charts.overview import overview
        from backprobe.charts.report import RunReport
        from backprobe.charts.single import alerts_of, one_name

        reader, folder = self._reader, str(self.folder)
        full = None if name is None else self._resolve(name, f"run.report(name={cut(written(name))})")
        if step is not None:
            return self._report_of_step(step, full)
        alerts, gaps = self.alerts, self.gaps
        if full is None:
            return RunReport(
                alerts.heading,
                alerts.findings,
                alerts.notes,
                about=folder,
                complete=alerts.complete,
                text=lambda: overview(reader, str(self), alerts, gaps),
                numbers=lambda: {
                    "run": folder,
                    **data.of_run(reader),
                    **data.of_report(alerts),
                    "gaps": [one.to_dict() for one in gaps],
                },
            )
        of_name = alerts_of(full, alerts)
        return RunReport(
            of_name.heading,
            of_name.findings,
            of_name.notes,
            about=f"{full!r} in {folder!r}",
            complete=of_name.complete,
            text=lambda: one_name(reader, full, of_name),
            numbers=lambda: {"run": folder, **data.of_name(reader, full), **data.of_report(of_name)},
        )

    def _report_of_step(self, step: int, full: str | None) -> RunReport:
        from backprobe.charts import data
        from backprobe.charts.report import RunReport
        from backprobe.charts.single import one_step

        found = self.at(step)
        rows: Mapping[str, Mapping[str, float]] = found if full is None else {full: found[full]}
        heading = f"step{repr(found).removeprefix('<backprobe.Step').removesuffix('>')}"
        return RunReport(
            heading,
            about=f"step {found.step} of {str(self.folder)!r}",
            text=lambda: one_step(heading, rows),
            numbers=lambda: {"run": str(self.folder), **data.of_step(found.step, rows)},
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run's present state as a self-contained ``.html`` file that looks like ``bp.view``.

        Steps are combined into 300 bins, each with its smallest and largest number, and the number of steps with NaN or
        Inf. Raises BadOption.
        """
        from backprobe.view import save

        save([self._files], path, f"run.save({cut(written(path))})")

    def export(
        self, path: str | os.PathLike[str], format: ExportFormat = "parquet", fields: Sequence[str] | None = None
    ) -> None:
        """Write the run for other tools: ``"parquet"`` or ``"arrow"`` files, or TensorBoard's event files.

        ``path`` is a folder, or a URL that fsspec supports, such as ``s3://bucket/exp1``. Called again, the method
        writes only new steps, also while the training still runs. ``fields``, such as ``["grad.rms"]``, limits the
        written fields. The other columns are then empty, and ``bp.open_run`` cannot read the export.

        The schema is on the page "Watch a training". Raises BadOption and NotInstalled.
        """
        from backprobe import exports

        asked = f"run.export({cut(written(path))})"
        exports.check(path, format, fields, asked)
        for field in fields or ():
            self._kind(field, f"run.export({cut(written(path))}, fields=[{written(field)}])")
        exports.export(self._reader, path, format, fields, asked)

    def plot(self, field: str = "grad.rms") -> Any:
        """A field of all names over the steps, as a ``matplotlib`` figure: a heat map on a logarithmic scale, or for
        counts on a linear one.

        ``run.plot("grad.rms").savefig("run.png")`` writes it. Raises BadOption and NotInstalled.
        """
        from backprobe.charts.plots import heat_map

        kind = self._kind(field, f"run.plot({cut(written(field))})")
        return heat_map(self._reader, self._reader.names_of(kind), field)

    def plot_flow(self, step: int | None = None) -> Any:
        """The rms of values and gradients across depth, at a step or the last, as a ``matplotlib`` figure.

        Raises UnknownStep and NotInstalled.
        """
        from backprobe.charts.plots import flow

        own, rows = self._reader.parameters(), self._reader.rows()
        names = dict.fromkeys(name for name, kind in rows if kind in ("value", "grad"))
        chosen = self.at(step if step is not None else int(self.steps[-1]) if len(self.steps) else 0)
        return flow([name for name in names if name not in own] or list(names), chosen.step, chosen)

    def to_arrow(self) -> Any:
        """The whole run as a ``pyarrow.Table``: a row for each step, name and kind, with all statistics.

        ``pyarrow.parquet.write_table(run.to_arrow(), path)`` writes it. Raises NotInstalled.
        """
        arrow = installed("pyarrow", asked="run.to_arrow()")
        from backprobe.storage.runs.table import table

        return arrow.table(table(self._reader))

    def to_dataframe(self, field: str | None = None) -> Any:
        """A field of all names as a data frame, one row a step, of pandas, or of Polars if only Polars is installed.

        In pandas the steps are the index, in Polars the first column. Steps in which no name has the field are left
        out. ``run.to_dataframe("grad.rms").plot(logy=True)`` draws it. Without a field, the result is the long table of
        ``to_arrow``.

        Raises BadOption and NotInstalled.
        """
        from backprobe.show.frames import frame

        asked = "run.to_dataframe()" if field is None else f"run.to_dataframe({cut(written(field))})"
        if field is None:
            from backprobe.storage.runs.table import table

            return frame(lambda: table(self._reader), asked)
        from backprobe.storage.runs.table import wide

        kind = self._kind(field, asked)
        names = self._reader.names_of(kind)
        return frame(lambda: wide(self._reader, names, field), asked, index="step")

    def sql(self, query: str) -> Any:
        """Run a DuckDB query on all steps, names and processes. Returns the result as a ``pyarrow.Table``.

        ``run.sql("SELECT name, max(rms) AS most FROM merged WHERE kind = 'grad' GROUP BY name ORDER BY most DESC")``

        The table ``rows`` has a row for each rank, step, name and kind, with the ten columns of statistics. The view
        ``merged`` combines all processes, and adds mean, rms, std and absmax. ``steps`` has a row for each rank and
        step. The page "Watch a training" describes the macros. A query cannot read files. Rows are only in a defined
        order with ORDER BY.

        Raises BadOption with DuckDB's message, and NotInstalled.
        """
        from backprobe.exports.sql import query as answered

        asked = f"run.sql({cut(written(query))})"
        tables = self._tables(asked)
        return answered(tables, query, asked, lambda: self._reread(tables))

    def _tables(self, asked: str) -> dict[str, Any]:
        # The tables for SQL.
        from backprobe.exports.sql import tables

        return tables(self._reader, asked)

    def _reread(self, tables: Mapping[str, Any]) -> None:
        # Read all rows. This raises BadRun for a damaged file.
        for _ in tables["rows"].to_batches():
            pass

    # Methods that look up names.

    def _kind(self, field: Any, asked: str) -> str:
        return field_kind(field, self.fields, asked)

    def _check_kind(self, name: str, kind: str, asked: str) -> None:
        check_kind(name, kind, self._reader.rows(), asked)

    def _resolve(self, name: Any, asked: str) -> str:
        return row_name(name, self.names, self._reader.aliases(), asked)

    def _why_not(self, name: str, step: int) -> str:
        # The reason why a name has no row in a step.
        from backprobe.record.gaps import GapCode

        said = [GapCode(code).meaning for at, one, _, code in self._reader.gaps() if (at, one) == (step, name)]
        return said[0] if said else "it was not called in this step, or no numbers came to it"

    # Methods for use as a context manager.

    def close(self) -> None:
        """Close the run's files."""
        self._reader.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _facts(self) -> list[tuple[str, str]]:
        steps = self.steps
        kinds = dict.fromkeys(kind for _, kind in self._reader.rows())
        known = [("steps", f"{len(steps)}, from {steps[0]} to {steps[-1]}" if len(steps) else "none so far")]
        known += [
            ("skipped", listed(self.skipped.tolist())),
            ("names", f"{len(self.names)}"),
            ("kinds", ", ".join(kinds)),
        ]
        starts = len(self._reader.attempts())
        ranks = listed(self.ranks) if self.ranks != [0] else ""
        return [*known, ("starts", str(starts) if starts > 1 else ""), ("ranks", ranks)]

    def __repr__(self) -> str:
        counts = f"{plural(len(self.steps), 'step')}, {plural(len(self.names), 'name')}"
        return f"<backprobe.Run {str(self.folder)!r}: {counts}>"

    def __str__(self) -> str:
        lines = [f"  {label + ':':<8} {text}" for label, text in self._facts() if text]
        return "\n".join([f"run in {self.folder!s}", *lines])

    def _repr_html_(self) -> str:
        from backprobe.view import framed_runs

        framed = [framed_runs([self._files])] if len(self.steps) else []
        return joined([shown(facts(f"run in {self.folder!s}", self._facts())), *framed])
