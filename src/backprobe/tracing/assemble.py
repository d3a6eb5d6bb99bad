"""Assembles a record from the facts that a run and its backend have gathered.

The caller, which ran the program, provides the names and lines of values. The backend provides the outcome of each
capture, by the capture's position. This file replaces positions of captures by positions of entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from backprobe.backends.facts import NOTHING_KNOWN, Backward, Description, Outcome, WrittenVersion
from backprobe.record.entries import Entry, Record
from backprobe.record.held import Alias
from backprobe.record.inputs import Edge, IndirectInput, PathSums, Read
from backprobe.record.names import strip
from backprobe.record.none_gradients import NoneGiven
from backprobe.record.nonfinite import BackwardOp, Finiteness, Update
from backprobe.record.positions import names_at
from backprobe.record.reasons import Note
from backprobe.record.source import Source
from backprobe.record.stamp import Stamp
from backprobe.record.training import Training, Untrained


@dataclass(frozen=True)
class EntryNames:
    """The names of a record's entries: the entry and the printed form of each full name, and all names of each
    entry.
    """

    positions: Mapping[str, int]
    printed: Mapping[str, str]
    of_entries: Sequence[Sequence[str]]  # by position of the entry: its printed names, the main one first


class Assembler:
    """Builds the entries of one record. It knows all names, and the position of the entry that belongs to each
    capture.
    """

    def __init__(
        self, names: EntryNames, captured: Sequence[int], version_of: Callable[[Any], int | None] = lambda tensor: None
    ) -> None:
        self.names, self.captured, self.version_of = names, captured, version_of
        self.first = [own[0] for own in names.of_entries]

    def entry(
        self,
        at: int,
        outcome: Outcome,
        *,
        described: Description = NOTHING_KNOWN,
        source: Source | None,
        op: str,
        reads: tuple[Read, ...] = (),
        indirect: tuple[IndirectInput, ...] = (),
        original: tuple[Any] | None = None,
        replaced_grad: bool = False,
    ) -> Entry:
        """Return the entry at a position, built from facts about the value and from the outcome of backward.

        If ``replace=`` has replaced the value, ``original`` is a tuple with the original value.
        """
        own = self.names.of_entries[at]
        if outcome.written is not None:
            source, indirect = source or outcome.written.source, self._written(own[0], outcome.written, indirect)
        return Entry(
            name=own[0],
            aliases=tuple(own[1:]) if len(own) > 1 else (),
            status=outcome.status,
            why=outcome.why,
            shape=described.shape,
            dtype=described.dtype,
            device=described.device,
            source=source,
            op=op,
            inputs=tuple([self._edge(edge) for edge in outcome.inputs]) if outcome.inputs else (),
            reads=reads,
            indirect=indirect,
            held_value=self._held(outcome),
            held_grad=outcome.grad,
            axes=outcome.axes,
            finiteness=None if outcome.made is None else self._finiteness(outcome.made),
            cause=outcome.cause,
            is_leaf=outcome.is_leaf,
            leaves_reached=outcome.leaves_reached,
            replaced=original is not None,
            held_original=None if original is None else original[0],
            replaced_grad=replaced_grad,
        )

    def record(
        self,
        entries: Sequence[Entry],
        passed: Backward,
        *,
        backend: str,
        framework: str,
        outputs: Sequence[int],
        unseen: Sequence[str],
        notes: Sequence[Note],
        stamp: Stamp,
    ) -> Record:
        """Return the record that contains these entries."""
        about_captures = [Note(why.code, why.fields, self.first[self.captured[at]]) for at, why in passed.notes]
        return Record(
            backend=backend,
            framework=framework,
            entries=tuple(entries),
            names=self.names.positions,
            printed=self.names.printed,
            backward=self._each(passed.order),
            outputs=tuple(outputs),
            stamp=stamp,
            unseen=tuple(unseen),
            notes=(*notes, *about_captures),
            path_sums=self._path_sums(passed.sums),
            scales=passed.scales,
            updates=tuple([self._update(one) for one in passed.updates]),
            none_given=tuple([self._none_given(one, passed.training) for one in passed.none_given]),
            training=None if passed.training is None else self._training(passed.training),
            none_reads=tuple([replace(one, at=self._at(one.at)) for one in passed.none_reads]),
        )

    # Methods that convert positions of captures to positions of entries.

    def _written(self, name: str, written: WrittenVersion, said: Sequence[IndirectInput]) -> tuple[IndirectInput, ...]:
        # Return the indirect inputs of a new value of a ``Variable``: those that are known, and the values from which
        # the assigned value was computed. A value that the statement only mentions is left out if a tape follows it.
        known, followed = {way.at for way in said}, {self.captured[at] for at in written.followed}
        given = dict.fromkeys(self._each(written.captures))
        unsaid = [
            IndirectInput(self._local(at), at, strip(name).rpartition(":")[2], written.source, name=self.first[at])
            for at in given
            if at not in known
        ]
        return (*[way for way in said if way.at in given or way.at not in followed], *unsaid)

    def _local(self, at: int) -> str:
        # Return the name of a value in the program's code, without its scope and its count.
        return strip(self.first[at]).rpartition(":")[2]

    def _held(self, outcome: Outcome) -> Any:
        return outcome.value if outcome.version is None else Alias(outcome.value, outcome.version, self.version_of)

    def _at(self, capture: int | None) -> int | None:
        return None if capture is None else self.captured[capture]

    def _each(self, captures: Sequence[int]) -> tuple[int, ...]:
        return tuple([self.captured[capture] for capture in captures])

    def _edge(self, edge: Edge) -> Edge:
        at = self.captured[edge.at]
        return Edge(at, edge.partial, edge.contribution, name=self.first[at])

    def _finiteness(self, made: Sequence[BackwardOp]) -> Finiteness:
        return Finiteness(None, None, tuple([self._operation(one) for one in made]))

    def _operation(self, operation: BackwardOp) -> BackwardOp:
        at = self._at(operation.at)
        return replace(operation, at=at, name=names_at(at, self.first))

    def _update(self, update: Update) -> Update:
        return replace(update, after=self._at(update.after))

    def _none_given(self, one: NoneGiven, training: Training | None) -> NoneGiven:
        at = self._at(one.at)
        known = names_at(at, self.first) or one.name
        name = one.name.removeprefix(self._holder(one.name, at)) if one.is_variable and training is not None else known
        cuts = tuple([replace(cut, values=self._each(cut.values)) for cut in one.cuts])
        return replace(
            one,
            at=at,
            name=name,
            outside=self._each(one.outside),
            cuts=cuts,
            targets=self._each(one.targets),
        )

    def _training(self, training: Training) -> Training:
        return replace(training, untrained=tuple([self._untrained(one) for one in training.untrained]))

    def _untrained(self, one: Untrained) -> Untrained:
        own = self._at(one.own)
        holder = self._holder(one.name, own)
        return replace(
            one,
            name=one.name.removeprefix(holder),
            module=one.module.removeprefix(holder),
            carriers=self._each(one.carriers),
            own=own,
            instead=self._each(one.instead),
        )

    def _holder(self, name: str, at: int | None) -> str:
        # In a block, a parameter's name begins with the variable that holds the model. Return this first part, or an
        # empty text. In the recording, the name is only the path in the model.
        path = "" if at is None else strip(self.first[at])
        return name.removesuffix(path) if path and name.endswith(f".{path}") else ""

    def _path_sums(self, sums: PathSums | None) -> PathSums | None:
        if sums is None:
            return None
        worst, unjudged = self._at(sums.worst_at), self._each(sums.unjudged_at)
        return replace(
            sums,
            worst=names_at(worst, self.first),
            worst_at=worst,
            unjudged=names_at(unjudged, self.first),
            unjudged_at=unjudged,
        )
