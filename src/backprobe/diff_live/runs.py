"""The runs of ``diff_live``: each program by itself, and the second on values of the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backprobe.backends.discover import find_backend
from backprobe.backends.protocol import Backend
from backprobe.backends.refusals import refuse
from backprobe.backends.replay import Replay
from backprobe.backends.variations import Call, Variation, varied_call
from backprobe.diff import DiffReport
from backprobe.probe.probe_class import Probe
from backprobe.probe.request import asked_as, name_of, names_in, refuse_class, spelled_as
from backprobe.probe.waiting import Waiting, refuse_used_up
from backprobe.record.containers import leaves, refilled
from backprobe.record.options import Option, check_options
from backprobe.recording import Recording
from backprobe.tracing.exchanging import Exchange

OPTIONS = (
    Option(
        "backend",
        object,
        lambda given: not isinstance(given, list | tuple) or len(given) == 2,
        '("torch", "jax")',
        says="a name, or one for each program",
    ),
    Option(
        "of",
        object,
        lambda given: not isinstance(given, tuple) or len(given) == 2,
        "(first_loss, second_loss)",
        says="one output, or one for each program",
    ),
)

One = str | int | Callable[[Any], Any] | None
Of = One | tuple[One, One]


@dataclass(frozen=True, repr=False)
class DiffRuns(Waiting[..., DiffReport]):
    """Two functions or models that are compared when this object is called. The target is the reference."""

    port: Any
    select: Any
    of: Of
    wrt: Any
    cotangent: Any
    rename: Any
    layout: Any
    noise: Any
    convention: Any
    verb = "diff_live"

    def __post_init__(self) -> None:
        """Check the options. Raises BadOption."""
        check_options(vars(self), OPTIONS)
        for which, (target, backend) in enumerate(zip(self._targets, self._backends, strict=True)):
            self._probe(which, target, backend)  # checks the options of ``probe``
            refuse_class(target, "diff_live")

    @property
    def _targets(self) -> tuple[Any, Any]:
        return self.target, self.port

    @property
    def _backends(self) -> Sequence[str | None]:
        return [self.backend] * 2 if self.backend is None or isinstance(self.backend, str) else self.backend

    @property
    def _call(self) -> str:
        return f"bp.diff_live({asked_as(self.target)}, {asked_as(self.port)}"

    def _spelled(self) -> str:
        return f"{self._call})"

    def _about(self) -> str:
        return f"{super()._about()} and {name_of(self.port)}"

    def _run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> DiffReport:
        with spelled_as(r"^bp\.probe\([^,)]+", self._call):
            return self._compared(args, kwargs)

    def _compared(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> DiffReport:
        from backprobe.diff.noise import noise_of  # imported late, because they import NumPy
        from backprobe.diff.run import compared, report_of
        from backprobe.diff_live.isolation import Isolation

        taken: dict[int, Any] = {}
        first, second = (self._recorded(which, args, kwargs, taken) for which in (0, 1))
        noise = noise_of(self.noise, first)
        plain = compared(first.record, second.record, self.rename, self.layout, noise, convention=self.convention)
        report = report_of(plain)
        isolation = Isolation(plain.comparison)
        if not isolation.exchange.given:
            return report
        again = self._recorded(1, args, kwargs, taken, isolation.exchange)
        record, given = isolation.isolated(again.record)
        isolated = compared(
            first.record,
            record,
            self.rename,
            self.layout,
            noise,
            convention=self.convention,
            given=given,
            settled=plain.settled,
        )
        return report_of(isolated, isolation.notes())

    def _recorded(
        self,
        which: int,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        taken: dict[int, Any],
        exchange: Exchange | None = None,
    ) -> Recording:
        # Run the first or the second program once, restore its state, and return the recording.
        target, named = self._targets[which], self._backends[which]
        values = [leaf for value in (*args, *kwargs.values()) for _, leaf in leaves(value)]
        for value in values:
            refuse_used_up(value, f"{self._call})")
        backend = find_backend(named, [target, *values], spelled="bp.diff_live(f, g, {})")
        variations = (backend.variations or refuse(backend, "variations", f"{self._call})"))()
        undo: list[Callable[[], None]] = []
        try:
            with Replay(backend, target, args, kwargs, taken=taken).run():
                call = varied_call(variations, _with_tensors(Call(target, args, kwargs), backend), Variation(), undo)
                return self._probe(which, call.target, backend.name, exchange)(*call.args, **call.kwargs)
        finally:
            for put_back in reversed(undo):
                put_back()

    def _probe(self, which: int, target: Any, backend: str | None, exchange: Exchange | None = None) -> Probe[..., Any]:
        of = self.of[which] if isinstance(self.of, tuple) else self.of
        return Probe(
            target,
            self.select,
            of=of,
            wrt=names_in(self.wrt),
            cotangent=self.cotangent,
            replace=exchange,
            backend=backend,
        )


def _with_tensors(call: Call, backend: Backend) -> Call:
    # The call with NumPy arrays replaced by tensors of the framework.
    import numpy  # importing backprobe must not import NumPy

    given = backend.trials().given if backend.trials is not None else None

    def tensor(leaf: Any) -> Any:
        return leaf if given is None or not isinstance(leaf, numpy.ndarray) else given(leaf)

    args = [refilled(one, tensor) for one in call.args]
    return Call(call.target, args, {name: refilled(one, tensor) for name, one in call.kwargs.items()})
