"""The runs that measure a noise floor."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from backprobe.backends.protocol import Backend
from backprobe.backends.refusals import refuse
from backprobe.backends.replay import Replay
from backprobe.backends.variations import Call, Variation, varied_call
from backprobe.diff.floor import NoiseFloor
from backprobe.errors import BadOption
from backprobe.executors import EXECUTOR
from backprobe.executors.state import GlobalState, SentCall
from backprobe.executors.tasks import Tasks
from backprobe.findings.phrasing import plural
from backprobe.probe import probe
from backprobe.probe.request import asked_as, name_of, refuse_uncallable, spelled_as
from backprobe.probe.several_outputs import refuse_several
from backprobe.probe.waiting import Waiting
from backprobe.record.containers import refilled
from backprobe.record.options import Option, check_options
from backprobe.record.typed import P
from backprobe.recording import Recording

SINGLE = 2.0**-23
OPTIONS = (
    Option("runs", int, 1, "4"),
    Option("precision", str, None, '"bfloat16"', or_none=True, says="the name of a dtype"),
    EXECUTOR,
)


@dataclass(frozen=True, repr=False)
class NoiseRuns(Waiting[P, NoiseFloor]):
    """A function or model whose noise floor is measured when it is called."""

    select: Any
    of: Any
    wrt: Any
    cotangent: Any
    precision: str | None
    runs: int
    executor: Any = None
    verb = "noise_floor"

    def __post_init__(self) -> None:
        """Raises BadOption."""
        check_options(vars(self), OPTIONS)
        refuse_several(self.of, "bp.noise_floor(f, ", "bp.noise_floor(f, of='ce'), once for each")
        self._probe(self.target)  # checks the probe's own options
        refuse_uncallable(self.target, "noise_floor")

    def _probe(self, target: Any) -> Any:
        return probe(target, self.select, of=self.of, wrt=self.wrt, cotangent=self.cotangent, backend=self.backend)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoiseFloor:
        with spelled_as(r"^bp\.probe\(", "bp.noise_floor("):
            return self._measured(args, kwargs)

    def _measured(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoiseFloor:
        from backprobe.diff.noise import compared, floor_of  # imports NumPy

        backend = self._backend_of(args, kwargs)
        runs = FloorRuns(self, backend, args, kwargs)
        variations = [Variation(seed) for seed in range(self.runs)]
        if self.precision is not None:
            variations += [Variation(seed, self.precision) for seed in (None, *range(self.runs - 1))]
        reference = runs.made(Variation()).record
        origin = f"{plural(self.runs, 'run')} with arguments and parameters moved by one ulp"
        if self.precision is not None:
            origin += f", and {self.runs:,} in {self.precision}"
        if self.executor is None:
            return floor_of((compared(reference, runs.made(one).record) for one in variations), origin)
        work = FloorWork(replace(self, executor=None), args, kwargs, GlobalState.of(backend), variations)
        names = [f"run {at}" for at in range(1, len(variations) + 1)]
        parts = {name_of(self.target): self.target, "args": args, "kwargs": kwargs}
        tasks = Tasks(self.executor, work, names, f"bp.noise_floor({asked_as(self.target)}, ...)", parts)
        return floor_of(tasks.run(lambda name: None), origin)

    def _backend_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Backend:
        # The backend of the target. Raises BadOption, NoBackend and Unsupported.
        return self._found(args, kwargs, "measured", "its arguments and parameters are moved, and it runs again")

    def refuse_nothing(self, values: Sequence[Any]) -> NoReturn:
        """Raise BadOption, because none of the arguments can be moved."""
        raise BadOption(
            f"nothing that {name_of(self.target)} is given can be moved",
            asked=f"bp.noise_floor({asked_as(self.target)})",
            found=f"arguments of type {', '.join(sorted({type(one).__name__ for one in values}))}"
            if values
            else "no arguments",
            why="a floor is what becomes of moving floating-point arguments, and parameters of models, by one ulp",
            next="a function that takes the model as an argument: bp.noise_floor(lambda model, x: model(x))(model, x)",
        )


@dataclass(frozen=True)
class FloorWork(SentCall):
    """The runs in the form that is sent to a worker process. The worker computes a reference of its own."""

    variations: Sequence[Variation]

    def begin(self) -> Callable[[int], Any]:
        """Return a function that compares a run, given by its number, with the worker's reference."""
        from backprobe.diff.noise import compared

        runs = FloorRuns(self.asked, self.backend(), self.args, self.kwargs)
        reference = runs.made(Variation()).record
        return lambda number: compared(reference, runs.made(self.variations[number]).record)


class FloorRuns:
    """Runs of one target with the same arguments, or with variations of them."""

    def __init__(
        self, asked: NoiseRuns[...], backend: Backend, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.asked, self.call = asked, Call(asked.target, args, kwargs)
        subject = f"bp.noise_floor({asked_as(asked.target)})"
        self.variations = (backend.variations or refuse(backend, "variations", subject))()
        self.replay = Replay(backend, asked.target, args, kwargs)

    def made(self, variation: Variation) -> Recording:
        """The recording of one run. Afterwards the state of the program is restored."""
        undo: list[Callable[[], None]] = []
        try:
            with self.replay.run():
                call = varied_call(self.variations, self.call, variation, undo)
                if not call.varied:
                    call = self._with_numbers(variation)
                recording: Recording = self.asked._probe(call.target)(*call.args, **call.kwargs)
                return recording
        finally:
            for put_back in reversed(undo):
                put_back()

    def _with_numbers(self, variation: Variation) -> Call:
        # The call with varied Python numbers. They vary by an ulp of single precision, to which a probe converts them.
        signs, count = _signs(variation.seed), 0

        def moved(leaf: Any) -> Any:
            nonlocal count
            if type(leaf) is not float:
                return leaf
            count += 1
            return leaf * (1 + next(signs) * SINGLE)

        args = [refilled(one, moved) for one in self.call.args]
        kwargs = {name: refilled(one, moved) for name, one in self.call.kwargs.items()}
        if not count:
            self.asked.refuse_nothing([*self.call.args, *self.call.kwargs.values()])
        return Call(self.call.target, args, kwargs, count)


def _signs(seed: int | None) -> Iterator[int]:
    drawn = random.Random(seed)
    while True:
        yield 0 if seed is None else drawn.choice((-1, 1))
