"""The recording that a probe returns: a read-only mapping from names to entries, in the order of execution."""

from __future__ import annotations

import os
from collections.abc import Collection, ItemsView, Iterator, Mapping, Sequence, ValuesView
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from backprobe.backends.discover import BackendName
from backprobe.charts import presenter
from backprobe.conflicts import Conflicts
from backprobe.errors import (
    AmbiguousName,
    BackprobeError,
    BadOption,
    NothingMatched,
    NotSaved,
    UnknownAttribute,
    UnknownName,
)
from backprobe.findings.phrasing import listed
from backprobe.record.brief import written
from backprobe.record.entries import Entry, GradStatus, Record, unknown_output
from backprobe.record.inputs import PathSums
from backprobe.record.lookup import Index
from backprobe.record.names import nearest
from backprobe.record.options import Option, check_folder
from backprobe.record.passes import Pass
from backprobe.record.patterns import compile_pattern, refuse_unmatched, texts_of
from backprobe.record.several import of_output
from backprobe.record.stamp import Stamp
from backprobe.record.typed import Generic, R, T
from backprobe.record.weights import weights_of
from backprobe.recording.asked_names import asked_entry, counted
from backprobe.recording.results import NOT_KEPT, deep_copy
from backprobe.show import table
from backprobe.source.tracebacks import leave_out_ours
from backprobe.tracing.summed import summed
from backprobe.tracing.transcribe import FinishedRun
from backprobe.view.shown import Shown

Entry._presenting = presenter


class Recording(Mapping[str, Entry[T]], Generic[R, T]):
    """Every value that a probe recorded, by name.

    Iterating gives the printed names in the order of execution. A look-up takes any name or alias. Counts ``#K`` may be
    left out if the name is unambiguous, and ``#-1`` means the last one.

    >>> import torch, backprobe as bp
    >>> rec = bp.probe(lambda x: x * 3)(torch.tensor(2.0))
    >>> list(rec), rec["x"].grad
    (['x', 'return'], tensor(3.))
    """

    _rerun: Any = None
    """The object that can run the program again. It is neither saved nor pickled."""

    def __init__(self, record: Record | FinishedRun, result: Any = NOT_KEPT) -> None:
        self._known: Record | FinishedRun | Index = record
        self._result = result

    @property
    def _now(self) -> Record | FinishedRun | Index:
        return self._known

    @property
    def _index(self) -> Index:
        # Create the index only on request, because a training loop may read nothing but gradients.
        known = self._now
        if isinstance(known, Index):
            return known
        self._known = made = Index(known.record() if isinstance(known, FinishedRun) else known)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copying and pickling. It has the finished record, instead of the data from which a
        record is made.
        """
        self._known = self._index
        return {name: held for name, held in vars(self).items() if name != "_rerun"}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy with tensors of its own. If the program returned tensors with a history, their copies have no history,
        as with pickle.
        """
        return deep_copy(self, self.__getstate__(), memo)

    @property
    def result(self) -> R:
        """The return value of the function or model. Saved with a recording only if it consists of tensors, numbers,
        strings, and tuples, lists and dicts of these. Raises NotSaved if it was not saved.
        """
        if self._result is NOT_KEPT:
            raise NotSaved(
                "the result of this recording was not saved",
                asked="rec.result",
                found="a recording loaded from disk",
                why="only tensors, numbers, strings, and tuples, lists and dicts of these are saved",
                next="rec.outputs, for what was differentiated",
            )
        result: R = self._result
        return result

    @property
    def outputs(self) -> tuple[Entry[T], ...]:
        """The entries of the outputs, from which the backward passes started."""
        each = [one.outputs for one in self.record.by_output.values()] or [self.record.outputs]
        return tuple(self.record.entries[at] for at in dict.fromkeys(at for own in each for at in own))

    @property
    def passes(self) -> tuple[Pass, ...]:
        """The backward passes that the program ran itself in a block, each with its line, output and inputs.

        >>> import torch, backprobe as bp
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> with bp.probe() as rec:
        ...     y = x * x
        ...     (slope,) = torch.autograd.grad(y, x)
        >>> rec.passes[0].output, rec.passes[0].call, rec.passes[0].inputs
        ('y', 'autograd.grad', ('x',))
        """
        return self.record.passes

    @property
    def stamp(self) -> Stamp:
        """The recording's versions of packages, time and author."""
        return self.record.stamp

    @property
    def path_sums(self) -> PathSums | None:
        """Whether the partials along all paths sum to the gradients. None if no partials were requested."""
        return self.record.path_sums

    @property
    def record(self) -> Record:
        """The recording as plain data."""
        return self._index.record

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what could not be observed, and about how the program ran."""
        return tuple(map(str, self.record.notes))

    def __iter__(self) -> Iterator[str]:
        return iter(self._index.entries)

    def __len__(self) -> int:
        return len(self._index.entries)

    def values(self) -> ValuesView[Entry[T]]:
        """The entries, in the order of execution."""
        return self._index.marked.values()

    def items(self) -> ItemsView[str, Entry[T]]:
        """The printed names with their entries, in the order of execution."""
        return self._index.marked.items()

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        try:
            self[name]
        except UnknownName:
            return False
        except AmbiguousName:
            return True
        return True

    def __getitem__(self, name: str) -> Entry[T]:
        """The entry of this name. Raises UnknownName, AmbiguousName, or BadName."""
        try:
            return entry_of(self, name)
        except BackprobeError as error:
            leave_out_ours(error)
            raise

    if not TYPE_CHECKING:  # Otherwise type checkers would accept any attribute.

        def __getattr__(self, name: str) -> NoReturn:
            """Raises UnknownAttribute, because values are looked up in brackets."""
            if name.startswith("_"):  # names that copying, pickling and notebooks look up
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
            error = unknown_attribute(self, name)
            # With ``obj`` set and no ``name``, Python does not append a suggestion of its own to our message.
            error.obj = self
            raise error

    def select(self, patterns: str | Sequence[str]) -> dict[str, Entry[T]]:
        """The entries whose names match a pattern, or one of several patterns, by printed name. Patterns that begin
        with ``!`` exclude entries.

        Raises NothingMatched if another pattern matches no entry.
        """
        texts = texts_of(patterns)
        compiled = [compile_pattern(text, in_function=True) for text in texts]
        for pattern in compiled:
            if not pattern.excludes and not any(pattern.matches(full) for full in self.record.names):
                refuse_unmatched(pattern.text, self._index.entries, "the recording", _selecting)
        wanted = set()
        for full, position in self.record.names.items():
            chosen = any(p.matches(full) for p in compiled if not p.excludes) or all(p.excludes for p in compiled)
            if chosen and not any(p.matches(full) for p in compiled if p.excludes):
                wanted.add(position)
        return {entry.name: entry for at, entry in enumerate(self.record.entries) if at in wanted}

    def grads(self, key: str | None = None) -> dict[str, T]:
        """The existing gradients by printed name, in the order of execution.

        If there are several outputs, ``key`` selects one of them. Without ``key``, BadOption is raised, unless one of
        them is the default: the one on which a block called ``backward()``. Raises UnknownName if no output has this
        key.
        """
        if key is not None:
            return self.of(key).grads()
        known = self._now
        if isinstance(known, FinishedRun) and not (len(known.passes) > 1 and known.default is None):
            return known.grads()
        refuse_several(self, "rec.grads()", "rec.grads({})")
        return {name: entry.grad for name, entry in self._index.entries.items() if entry.status is GradStatus.OK}

    @property
    def output_keys(self) -> tuple[str, ...]:
        """The keys of several outputs, which were requested by ``of=`` or differentiated in a block. Empty for a single
        output.
        """
        return tuple(self.record.by_output)

    def of(self, key: str) -> Recording[R, T]:
        """The recording of one of several outputs, equal to that of a probe of this output alone. Raises UnknownName.

        >>> import torch, backprobe as bp
        >>> rec = bp.probe(lambda x: {"a": x * 2, "b": x * x}, of=["a", "b"])(3.0)
        >>> rec.output_keys, rec.of("b")["x"].grad, rec.total()["x"].grad, rec.total({"a": 0.5, "b": 1})["x"].grad
        (('a', 'b'), tensor(6.), tensor(8.), tensor(7.))
        """
        record = self.record
        if str(key) not in record.by_output:
            raise unknown_output(key, record.by_output, f"rec.of({key!r})")
        return Recording(of_output(record, str(key)), self._result)

    def total(self, weights: Mapping[str, float] | None = None) -> Recording[R, T]:
        """The recording of the weighted sum of several outputs. No further backward pass is run.

        ``weights`` maps the keys of outputs to numbers. Outputs with weight 0 or without a weight do not contribute. If
        ``weights`` is left out, each output has weight 1. The sum itself is the entry ``total()``, unless an output has
        no gradient itself. Raises BadOption for a recording of one output, for gradients of many cotangents at once,
        and unless the weights are a dict of finite numbers that are not all 0. Raises UnknownName for a key that
        belongs to no output.
        """
        record, asked = self.record, "rec.total()" if weights is None else f"rec.total({written(weights)})"
        if not record.by_output:
            raise BadOption(
                "the recording is of one output already",
                asked=asked,
                found=repr(self),
                next="bp.probe(f, of=['ce', 'kl']), for several outputs",
            )
        found = weights_of(weights, record.by_output)
        _refuse_batched(record, found, asked, "have no sum with others")
        return Recording(summed(record, found), self._result)

    def conflicts(self, patterns: str | Sequence[str] | None = None) -> Conflicts:
        """Compare the gradients of each pair of outputs: their cosine and their norms, for each entry.

        ``patterns`` select entries as ``rec.select`` does. Raises BadOption for a recording of one output and for
        gradients of many cotangents at once, and NothingMatched. It prints as a table, and ``rec.conflicts().plot()``
        is a heat map.
        """
        from backprobe.conflicts.measure import conflicts  # local import: it needs NumPy

        asked = "rec.conflicts()" if patterns is None else f"rec.conflicts({written(patterns)})"
        if len(self.output_keys) < 2:
            raise BadOption(
                "conflicts are between the gradients of several outputs",
                asked=asked,
                found="a recording of one output",
                next="bp.probe(f, of=['ce', 'kl'])(x).conflicts()",
            )
        _refuse_batched(self.record, self.output_keys, asked, "point in no one direction")
        try:
            return conflicts(self.record, dict(self.items()) if patterns is None else self.select(patterns))
        except NothingMatched as error:
            error.asked, error.next = (
                text.replace("rec.select", "rec.conflicts") for text in (error.asked, error.next)
            )
            raise

    def missing(self) -> dict[str, Entry[T]]:
        """The entries without a gradient, each with its ``status`` and ``reason``. If there are several outputs, an
        entry is listed if it has no gradient of the default output; without a default, if it has a gradient of none.
        """
        return {name: entry for name, entry in self._index.entries.items() if entry.status is not GradStatus.OK}

    def backward_order(self) -> list[str]:
        """The names of the entries with a gradient, in the order in which the backward pass reaches them.

        Raises BadOption for a recording of several outputs without a default, because each of them has its own pass.
        """
        refuse_several(self, "rec.backward_order()", "rec.of({}).backward_order()")
        return [self.record.entries[at].name for at in self.record.backward]

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the recording to a new folder, completely or not at all. ``bp.load`` reads it.

        A recording that exists there already is replaced only with ``overwrite=True``, and anything else never. Raises
        BadOption if the path exists already and is not replaced, the disk is full, or the folder is not writable, and
        NotSaved for values that cannot be saved.
        """
        from backprobe.storage.recordings import save  # local import: most recordings are never written

        save(self.record, None if self._result is NOT_KEPT else (self._result,), path, overwrite=overwrite)

    def to_dataframe(self) -> Any:
        """A data frame with a row for each entry, of pandas, or of Polars if only Polars is installed.

        Its columns are name, status, reason, shape, dtype, device, op, file, line and code, followed by statistics of
        values and gradients, from ``value.count`` to ``grad.absmax``. Complex numbers are measured by their magnitudes.
        Raises NotInstalled, and BadOption for a recording of several outputs without a default.
        """
        from backprobe.show.frames import columns_of, frame

        refuse_several(self, "rec.to_dataframe()", "rec.of({}).to_dataframe()")
        return frame(lambda: columns_of(self.record), "rec.to_dataframe()")

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the columns of ``to_dataframe`` to a CSV file. An existing file is replaced only after writing
        succeeds.

        >>> import pathlib, tempfile, torch, backprobe as bp
        >>> path = pathlib.Path(tempfile.mkdtemp(), "rec.csv")
        >>> bp.probe(lambda x: (x * 3).sum())(torch.ones(2)).to_csv(path)
        >>> path.read_text()[:24]
        'name,status,reason,shape'

        Raises BadOption if the file cannot be written, and for a recording of several outputs without a default.
        """
        from backprobe.show.frames import columns_of, write_csv

        check_folder(path, "path is a text", f"rec.to_csv({written(path)})", "rec.to_csv('rec.csv')")
        refuse_several(self, "rec.to_csv(path)", "rec.of({}).to_csv(path)")
        write_csv(columns_of(self.record), path)

    def show(self, rows: int | None = 20) -> None:
        """Print the table with at most this number of rows, half of them from its end. ``rows=None`` prints all rows.

        In a notebook, an HTML table is shown instead.

        >>> import torch, backprobe as bp
        >>> rec = bp.probe(lambda x: (x * 3).sum())(torch.ones(2))
        >>> rec.show(rows=1)  # doctest: +ELLIPSIS
        name  value   gradient  source
        x     [1, 1]  [3, 3] ...
        … 1 more
        gradients are of return
        """
        Option("rows", int, 1, "20", or_none=True).check(rows)
        table.show(self.record, rows)

    def __repr__(self) -> str:
        outputs = ", ".join(entry.name for entry in self.outputs) or "nothing"
        return f"<backprobe.Recording of {outputs}: {counted(self)}, {len(self.missing())} without gradient>"

    def __str__(self) -> str:
        return table.text(self.record)

    def __rich__(self) -> Any:
        return table.ForRich(self.record)

    def _repr_html_(self) -> str:
        return table.html(self.record)

    def _viewed(self) -> Shown:
        # Return the graph that ``bp.view`` shows. Raises BadOption for a recording of several outputs without a
        # default.
        from backprobe.view.circuit import captions_of, circuit  # local import: it needs NumPy

        refuse_several(self, "bp.view(rec)", "bp.view(rec.of({}))")
        return circuit(captions_of(self.record))


def refuse_several(recording: Recording, asked: str, instead: str) -> None:
    """Raise BadOption for a recording of several outputs, none of which is the default. ``instead`` is the code to
    write, with braces for the key.
    """
    keys = recording.output_keys
    if recording.record.is_of_several:
        raise BadOption(
            f"the recording is of several outputs: {listed(keys)}",
            asked=asked,
            why="each of them has gradients of its own",
            next=instead.format(repr(keys[0]))
            + ("" if "rec.of" not in instead else f", or {instead.replace('rec.of({})', 'rec.total()')} for their sum"),
        )


def _refuse_batched(record: Record, keys: Collection[str], asked: str, why: str) -> None:
    # Raise BadOption if one of these outputs was differentiated with many cotangents in one pass.
    for key in keys:
        if any(note.code == "grads_batched" for note in record.by_output[key].notes):
            raise BadOption(
                f"the gradients of {key} are of many cotangents at once, and {why}",
                asked=asked,
                next=f"rec.of({key!r}), for these alone",
            )


def _selecting(pattern: str | None) -> str:
    return "list(rec)" if pattern is None else f"rec.select({pattern!r})"


def load(path: str | os.PathLike[str], *, to: BackendName | Literal["numpy"] | None = None) -> Recording:
    """Read a recording that ``rec.save(path)`` wrote. Its tensors belong to the framework in which it was made.

    ``to="numpy"`` gives NumPy arrays instead, without importing a framework; bfloat16 becomes float32, and sparse
    arrays become dense. Raises BadRecording if the folder is incomplete, changed, or of another version. No code from
    the folder is ever run.

    >>> import torch, backprobe as bp
    >>> bp.probe(lambda x: x * 3)(torch.tensor(2.0)).save("/tmp/triple", overwrite=True)
    >>> bp.load("/tmp/triple")["x"].grad
    tensor(3.)
    """
    from backprobe.storage.recordings import read

    record, result = read(path, to=to)
    return Recording(record) if result is None else Recording(record, result[0])


def opened(path: str | os.PathLike[str]) -> Recording:
    """Open a recording for reading only. Its arrays are NumPy's, and stay on disk until they are used."""
    from backprobe.storage.recordings import read

    return Recording(read(path, is_mapped=True)[0])


def entry_of(recording: Recording[Any, T], name: str, asked: str = "rec[{}]") -> Entry[T]:
    """The entry of this name. ``asked`` is the text of the verb's call for messages, with braces for the name.

    Raises UnknownName, AmbiguousName, or BadName.
    """
    return asked_entry(recording._index, name, asked)


def unknown_attribute(recording: Recording, name: str) -> UnknownAttribute:
    """The error for an attribute such as ``rec.u``."""
    known = next(iter(recording), "u")
    methods = [one for one in dir(Recording) if not one.startswith("_")]
    if name in recording:
        instead = f"rec[{name!r}]"
    elif hasattr(Entry, name):
        instead = f"rec[{known!r}].{name}"
    else:
        instead = " or ".join([f"rec.{one}" for one in nearest(name, methods)[:1]] + [f"rec[{known!r}]"])
    return UnknownAttribute(
        f"a recording has no attribute {name!r}",
        asked=f"rec.{name}",
        found=repr(recording),
        why="names are looked up in brackets",
        next=instead,
    )
