"""The runs of a program on a whole batch and on its samples.

Each run of ``probed`` and each pass over the samples begins in the same state. Only ``recorded`` goes on from the
present state.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import add
from traceback import clear_frames
from typing import Any

from backprobe.backends.discover import is_model
from backprobe.backends.facts import Options
from backprobe.backends.protocol import Backend
from backprobe.backends.refusals import refuse
from backprobe.backends.replay import Replay
from backprobe.backends.vectorized import Gradients, SampleProgram, Vectorized
from backprobe.errors import BackprobeError, NothingMatched, Unsupported
from backprobe.findings.phrasing import listed
from backprobe.per_sample.asked import AskedSamples
from backprobe.per_sample.batch import batch_of
from backprobe.per_sample.wanted import Use, Wanted
from backprobe.probe.live import live_output
from backprobe.probe.named_values import output_of
from backprobe.probe.probe_class import Probe
from backprobe.probe.request import name_of, typed_as
from backprobe.record.brief import written
from backprobe.record.containers import leaves
from backprobe.record.entries import GradStatus
from backprobe.record.names import quote_path, strip
from backprobe.record.patterns import matcher
from backprobe.recording import Recording

AT_ONCE = 2**30
"""The most bytes of gradients of the samples that are computed together."""
SHARE = 4  # the divisor of the free memory that may be used
NUMBER = 8  # bytes of a number in double precision
SEED = 0
"""The seed of the random numbers, so that later runs draw the same."""


class SampleRuns:
    """Runs of one target with the same arguments."""

    def __init__(
        self, asked: AskedSamples[...], backend: Backend, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.asked, self.backend, self.of = asked, backend, asked.of
        self.vectorized: Vectorized = backend.vectorized or refuse(backend, "vectorized", asked.call)
        self.batch = batch_of(asked, backend, args, kwargs)
        self.replay = Replay(backend, asked.target, args, kwargs, seed=SEED)
        self.notes: list[str] = []
        self.models = backend.models if is_model(backend, asked.target) else None
        self.is_vectorized = True
        """Can the framework run the program on many samples at once?"""

    # Methods for a single run.

    def probed(self, tensors: Sequence[Any], select: Any, **how: Any) -> Recording:
        """A recording of one run on some samples, starting from the program's initial state."""
        with self.replay.run():
            return self.recorded(tensors, select, **how)

    def recorded(self, tensors: Sequence[Any], select: Any, **how: Any) -> Recording:
        """A recording of one run on some samples, starting from the program's present state."""
        args, kwargs = self.batch.filled(tensors)
        return self.probe(select, **how)(*args, **kwargs)

    def probe(
        self, select: Any, *, replace: Any = None, backward: bool = True, inside: bool = False
    ) -> Probe[..., Any, Any]:
        """The probe that records a run on samples. With ``inside`` the target runs inside a transformation of the
        framework.
        """
        target = self.vectorized.inside(self.asked.target) if inside else self.asked.target
        return Probe(
            target,
            select,
            of=self.of,
            replace=replace or None,
            options=Options(backward=backward),
            backend=self.asked.backend,
        )

    def marks(self) -> list[Any]:
        """Fingerprints of the arguments and parameters. A fingerprint changes if a number in its tensor changes."""
        given = [leaf for value in (*self.batch.args, *self.batch.kwargs.values()) for _, leaf in leaves(value)]
        held = [leaf for leaf in given if self.backend.arrays.is_tensor(leaf)]
        # kept alive, because another tensor could otherwise get the same identity
        self.marked = [*held, *self.parameters.values()]
        return [*map(self.vectorized.mark, self.marked)]

    # Methods that select values.

    def wanted(self, whole: Recording) -> list[Wanted]:
        """The selected values that have a gradient in a run of the batch. Raises NothingMatched."""
        self.of = output_of(self.asked, whole)
        record = whole.record
        selects = matcher(self.asked.select, in_function=self.models is None)
        names: dict[int, list[str]] = {}
        for full, at in record.names.items():
            names.setdefault(at, []).append(full)
        found = []
        for at, every in names.items():
            entry = record.entries[at]
            mine = [full for full in every if selects(full)]
            if not mine or at in record.outputs or entry.status is not GradStatus.OK or entry.axes:
                continue
            printed = record.printed[mine[0]]
            of_model = tuple(full for full in every if strip(full) in self.parameter_names)
            found.append(Wanted(printed, of_model or (_key(mine[0], printed),), entry, (printed, *every)))
        if not found:
            raise NothingMatched(
                f"{written(self.asked.select)} matches nothing in {name_of(self.asked.target)} that has a gradient",
                asked=self.asked.call,
                why="the gradient of each sample is a part of the gradient of the batch",
                next=f"bp.names({typed_as(self.asked.target)}), for every name",
            )
        return found

    def bound(self, wanted: Sequence[Wanted], alone: Sequence[Any]) -> list[Wanted]:
        """Return the values to which a tensor can be added in a run on one sample. A note names the other values, which
        are left out.
        """
        if not self.vectorized.replaces:
            return [*wanted]
        kept = [one for one in wanted if self.is_variable(one)]
        others = [one for one in wanted if one not in kept]
        try:
            self._tried(others, alone)
            return [*wanted]
        except Unsupported as error:
            self._without_vmap(error.headline)
            _let_go(error)
            return [*wanted]
        except NothingMatched:
            unbound = [one for one in others if not self._is_bound(one, alone)]
        self.notes.append(f"not bound by a statement, and left out: {listed([one.name for one in unbound])}")
        return [one for one in wanted if one not in unbound]

    def is_variable(self, one: Wanted) -> bool:
        """Is the value a parameter that cannot be replaced by another tensor?"""
        return self.models is not None and not self.models.replaces_parameters and one.keys[0] in self.parameters

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of a model, by name. Empty for a function, whose parameters are arguments."""
        if self.models is None or self.models.parameters is None:
            return {}
        return {quote_path(path): one for path, one in self.models.parameters(self.asked.target).items()}

    @cached_property
    def parameter_names(self) -> frozenset[str]:
        """The names of a model's parameters."""
        if self.models is None:
            return frozenset()
        return frozenset(map(quote_path, self.models.call(self.asked.target, (), {}).parameter_paths()))

    def _is_bound(self, one: Wanted, alone: Sequence[Any]) -> bool:
        try:
            self._tried([one], alone)
        except NothingMatched:
            return False
        return True

    def _tried(self, wanted: Sequence[Wanted], alone: Sequence[Any]) -> None:
        keys = [key for one in wanted for key in one.keys]
        if keys:
            self.probed(alone, keys, replace=dict.fromkeys(keys, _itself), backward=False)

    # Methods for many runs.

    def chunk(self, wanted: Sequence[Wanted]) -> int:
        """The number of samples that are computed together."""
        if self.asked.chunk is not None:
            return int(self.asked.chunk)
        each = sum(NUMBER * math.prod(one.shape) for one in wanted) or 1
        free = self.vectorized.free_memory(self.batch.tensors[0])
        return max(1, min(AT_ONCE, (_free_on_host() if free is None else free) // SHARE) // each)

    def each(self, wanted: Sequence[Wanted], use: Use) -> None:
        """Compute the losses and gradients of all samples in chunks, and pass each chunk to ``use``. If the framework
        cannot vectorize the program, begin again and run one sample after another.
        """
        if self.is_vectorized:
            try:
                self._each(wanted, use, self._together)
                return
            except BackprobeError:
                raise
            except Exception as error:  # noqa: BLE001  whatever the framework says of what it cannot vectorize
                self._without_vmap(f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}")
                _let_go(error)
        self._each(wanted, use, self._one_by_one)

    def _without_vmap(self, why: str) -> None:
        self.is_vectorized = False
        self.notes.append(
            f"one sample after another, since the program does not run under {self.vectorized.title}: {why}"
        )

    def _each(self, wanted: Sequence[Wanted], use: Use, compute: Callable[..., tuple[Any, Gradients]]) -> None:
        size = self.chunk(wanted)
        with self.replay.run():
            for start in range(0, len(self.batch), size):
                losses, gradients = compute(wanted, self.batch.part(start, start + size))
                use(start, losses, {one.name: self._shaped(one, gradients[one.name]) for one in wanted})

    def _together(self, wanted: Sequence[Wanted], samples: Sequence[Any]) -> tuple[Any, Gradients]:
        return self.vectorized.gradients(OneSample(self, wanted), samples)

    def _one_by_one(self, wanted: Sequence[Wanted], samples: Sequence[Any]) -> tuple[Any, Gradients]:
        program = OneSample(self, wanted)
        every = [
            program.gradients([part[at : at + 1] for part in samples], inside=False) for at in range(len(samples[0]))
        ]
        losses = self.vectorized.stacked([loss for loss, _ in every])
        return losses, {one.name: self.vectorized.stacked([own[one.name] for _, own in every]) for one in wanted}

    def _shaped(self, one: Wanted, gradients: Any) -> Any:
        # Remove the batch axis, which has length 1 for a single sample.
        return gradients if one.axis is None else gradients[(slice(None), *[slice(None)] * one.axis, 0)]


@dataclass(frozen=True)
class OneSample(SampleProgram):
    """The program, run on one sample."""

    runs: SampleRuns
    wanted: Sequence[Wanted]

    @property
    def shifted(self) -> Mapping[str, Any]:
        return {one.name: one.alone for one in self.wanted if not self.runs.is_variable(one)}

    @property
    def variables(self) -> Mapping[str, Any]:
        known = self.runs.parameters
        return {one.name: known[one.keys[0]] for one in self.wanted if self.runs.is_variable(one)}

    def loss(self, sample: Sequence[Any], shifts: Mapping[str, Any]) -> Any:
        replace = {key: partial(add, shifts[one.name]) for one in self.wanted if one.name in shifts for key in one.keys}
        request = self.runs.probe([*replace] or None, replace=replace, backward=False)
        return live_output(request, self.runs.backend, *self.runs.batch.filled(sample))

    def gradients(self, sample: Sequence[Any], *, inside: bool = True) -> tuple[Any, Gradients]:
        keys = {one.name: one.keys[0] for one in self.wanted}
        recording = self.runs.recorded(sample, [*keys.values()], inside=inside)
        return recording.outputs[0].value, {name: recording[key].grad for name, key in keys.items()}


def _let_go(error: BaseException | None) -> None:
    # Release the local variables of an error and of its causes. Otherwise a checkpoint of an older PyTorch keeps its
    # hooks for as long as its frame exists.
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _key(full: str, printed: str) -> str:
    # The name by which a value is replaced: without counts if that is unambiguous, because JAX does not count while
    # tracing.
    return strip(full) if strip(printed) == printed else full


def _itself(value: Any) -> Any:
    return value


def _free_on_host() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # some operating systems do not report their free memory
        return SHARE * AT_ONCE
