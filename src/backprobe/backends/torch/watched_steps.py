"""The ends of a training's steps, and the numbers that are read then: gradients before an optimizer uses them,
parameters afterwards.

A step ends when the last of its optimizers has stepped. If the last one does not step, the step ends with the last
optimizer that does. With a ``GradScaler`` it ends when the scaler is updated, because no optimizer steps if the scaler
has found an overflow.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.amp import GradScaler
from torch.optim import Optimizer

from backprobe.backends.patching import listening
from backprobe.backends.torch.optimizer_steps import parameters
from backprobe.backends.torch.rounds import Rounds
from backprobe.backends.torch.statistics import exponents_of, row_of, why_unread
from backprobe.backends.torch.tape import quiet
from backprobe.backends.torch.tensors import grad_of, here
from backprobe.backends.torch.uncleared_gradients import UnclearedGradients
from backprobe.backends.watches import BACKWARD, GRADIENT, StepListener, WatchOptions
from backprobe.backends.watching import parameter_rows
from backprobe.errors import BadOption
from backprobe.record.gaps import GapCode
from backprobe.record.options import Option
from backprobe.record.statistics import scaled

OPTIMIZER = Option(
    "optimizer", Optimizer, None, "torch.optim.SGD(model.parameters(), lr=0.1)", says="an optimizer, or several"
)
SCALER = Option("scaler", GradScaler, None, "torch.amp.GradScaler()", or_none=True, says="a torch.amp.GradScaler")
FUSED = ("grad_scale", "found_inf")
"""Attributes that a scaler sets on an optimizer that unscales its gradients itself. Such an optimizer may also skip a
step.
"""


class OptimizerSteps:
    """Observes the optimizers and the scaler of one training."""

    def __init__(
        self,
        options: WatchOptions,
        listener: StepListener,
        names: Mapping[Tensor, str],
        held: Callable[[], Iterable[Tensor]],  # returns the model's parameters, as they are now
        ending: Callable[[], None],  # called at the end of a measured step
        ended: Callable[[], None],  # called when the next step has started
    ) -> None:
        self.options, self.listener, self.names, self.held = options, listener, names, held
        self.ending, self.ended = ending, ended
        # all optimizers, numbered in the order in which they were given or made
        self.numbers = weakref.WeakKeyDictionary({one: at for at, one in enumerate(options.optimizers)})
        self.count = len(options.optimizers)
        self.before: dict[Tensor, Tensor] = {}  # copies of parameters, from which updates are computed
        self.uncleared = UnclearedGradients()
        self.rounds = Rounds(len(options.optimizers))
        self.stepped = False
        self.stepped_parameters: set[int] = set()  # ids of the parameters that optimizers updated in this step
        self.unread: dict[tuple[str, str], GapCode] = {}  # by name and kind: why a tensor of this step has no row

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Inside this context steps are observed."""
        with ExitStack() as installed:
            for optimizer in self.options.optimizers:
                self._hear(optimizer, installed)
            if self.options.optimizers:
                made = functools.partial(self._made, installed)
                installed.enter_context(listening(Optimizer, "__init__", made))
            if self.options.scaler is not None:
                kind = type(self.options.scaler)
                installed.enter_context(listening(kind, "update", self._updated))
            try:
                yield
            finally:
                self.before.clear()

    def end_by_hand(self) -> None:
        """End the step, because the program reports that it is over."""
        if self.listener.is_measured:
            self.measure_gradients(self.names, GRADIENT)
            self._measure_parameters(self.names)
        self._end()

    # Methods for optimizers.

    @property
    def optimizers(self) -> list[Optimizer]:
        """The optimizers that train the model: those given, and those that the program has made since."""
        return list(self.numbers)

    def _hear(self, optimizer: Optimizer, installed: ExitStack) -> None:
        for handle in (
            optimizer.register_step_pre_hook(self._before),
            optimizer.register_step_post_hook(self._after),
        ):
            installed.callback(handle.remove)

    def _made(
        self, installed: ExitStack, following: Callable[..., Any], optimizer: Optimizer, *args: Any, **kwargs: Any
    ) -> None:
        # The program makes another optimizer, as where more parts of a model are trained from some step on.
        following(optimizer, *args, **kwargs)
        own = set(parameters(optimizer))
        if own.isdisjoint(self.held()) or "_optimizer_step_pre_hooks" not in vars(optimizer):
            return
        if any(not own.isdisjoint(parameters(one)) for one in self.numbers):
            self.rounds.replacing.add(self.count)
        self.numbers[optimizer] = self.count
        self.count += 1
        self._hear(optimizer, installed)

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if not self.listener.is_measured:
            return
        own = [one for one in parameters(optimizer) if one in self.names]
        if self.options.updates:
            with quiet(), torch.no_grad():
                for one in own:
                    if one in self.before:
                        self.before[one].copy_(here(one))
                    else:
                        self.before[one] = here(one).clone()
        if not _closure(args, kwargs):
            self.measure_gradients(own, GRADIENT, factor=_unscaling(optimizer))

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self.listener.is_measured:
            own = [one for one in parameters(optimizer) if one in self.names]
            if _closure(args, kwargs):  # with a closure, backward() ran inside the step
                self.measure_gradients(own, GRADIENT)
            self._measure_parameters(own)
            self.stepped_parameters.update(map(id, own))
        self.stepped = self.stepped or not _found_overflow(optimizer)
        if self.options.scaler is not None:  # the step ends when the scaler is updated
            return
        if self.rounds.ends_with(self.numbers[optimizer]):
            self._end()
        else:
            self.listener.stepped()

    def _updated(self, following: Callable[..., Any], scaler: GradScaler, *args: Any, **kwargs: Any) -> Any:
        if scaler is not self.options.scaler:
            return following(scaler, *args, **kwargs)
        scale, is_enabled = float(scaler.get_scale()), scaler.is_enabled()
        result = following(scaler, *args, **kwargs)
        self._end(skipped=is_enabled and not self.stepped, scale=scale)
        return result

    def _end(self, skipped: bool = False, scale: float = 1.0) -> None:
        self.stepped = False
        if self.listener.is_measured:
            self.ending()
            self.stepped_parameters.clear()
            self.unread.clear()
        self.listener.end(skipped=skipped, scale=scale, uncleared=self.uncleared.count())
        self.uncleared.step_ended(self._used() if self.listener.is_measured and self.options.gradients else ())
        self.ended()

    def _used(self) -> Iterable[Tensor]:
        # The parameters whose gradients a step uses: those of the watched optimizers, if there are any.
        held = {one for optimizer in self.numbers for one in parameters(optimizer)}
        return [one for one in self.names if one in held] if held else self.names

    # Methods for parameters.

    def measure_gradients(self, tensors: Any, kind: str, *, factor: float = 1.0, replaces: bool = False) -> None:
        """Measure the ``.grad`` of these parameters, where there is one, if gradients are watched."""
        if not self.options.gradients:
            return
        with quiet(), torch.no_grad():
            for one in tensors:
                gradient = grad_of(one)
                if gradient is not None:
                    self._add(one, kind, gradient, factor, replaces)

    def _measure_parameters(self, tensors: Any) -> None:
        with quiet(), torch.no_grad():
            for one, kind, numbers in parameter_rows(self.options, tensors, self.before, _itself, self._difference):
                self._add(one, kind, numbers)

    def _difference(self, parameter: Tensor) -> Tensor:
        before = self.before[parameter]
        if parameter.dtype.itemsize < 4:  # in float32, because a difference may need more digits than the dtype has
            return here(parameter).float() - before.float()
        return torch.sub(here(parameter), before, out=before)

    def _add(self, parameter: Tensor, kind: str, numbers: Tensor, factor: float = 1.0, replaces: bool = False) -> None:
        row = row_of(numbers.detach())
        if row is None:
            self.unread[self.names[parameter], kind] = why_unread(numbers)
            return
        if factor != 1.0 and isinstance(row, tuple):
            row = scaled(row, factor)
        place = self.listener.place(
            self.names[parameter], kind, is_replicated=not _is_sharded(parameter), is_scaled=kind == BACKWARD
        )
        self.listener.add(place, row, replaces)
        if self.listener.is_counted and factor == 1.0:
            counted = exponents_of(numbers)
            if counted is not None:
                self.listener.count(place, counted, replaces)


def _itself(parameter: Tensor) -> Tensor:
    return parameter


def _is_sharded(parameter: Tensor) -> bool:
    # Does each process hold only a part of the parameter?
    return any(one.is_shard() for one in getattr(parameter, "placements", ()))


def _closure(args: Any, kwargs: Mapping[str, Any]) -> bool:
    # Did ``step`` receive a closure? The arguments of the hooks start with the optimizer.
    given = kwargs.get("closure", args[1] if len(args) > 1 else args[0] if args else None)
    return callable(given) and not isinstance(given, Optimizer)


def _unscaling(optimizer: Optimizer) -> float:
    scale = getattr(optimizer, FUSED[0], None)
    return 1.0 if scale is None else 1.0 / float(scale)


def _found_overflow(optimizer: Optimizer) -> bool:
    found = getattr(optimizer, FUSED[1], None)
    return found is not None and bool(found)


def without_wrapper(options: WatchOptions, asked: str) -> WatchOptions:
    """Return the options with the original optimizers and scaler, if another library has wrapped them, as Accelerate
    does. Raises BadOption if a wrapper does not hold exactly one optimizer.

    A wrapper whose ``__init__`` did not call ``Optimizer.__init__`` has no hooks, or hooks that never run.
    """
    scaler, found = options.scaler, []
    for optimizer in options.optimizers:
        while "_optimizer_step_pre_hooks" not in vars(optimizer):
            own = getattr(optimizer, "scaler", None)
            scaler = own if scaler is None and isinstance(own, GradScaler) else scaler
            optimizer = _only_inside(optimizer, asked)
        found.append(optimizer)
    return replace(options, optimizers=tuple(found), scaler=scaler)


def _only_inside(wrapper: Optimizer, asked: str) -> Optimizer:
    # Return the optimizer that a wrapper holds. Raises BadOption if there is not exactly one.
    held = {name: one for name, one in vars(wrapper).items() if isinstance(one, Optimizer)}
    if len({*map(id, held.values())}) == 1:
        return next(iter(held.values()))
    given = ", ".join(f"optimizer.{name}" for name in held)
    raise BadOption(
        f"the steps of {type(wrapper).__name__} cannot be heard",
        asked=asked,
        found=f"it holds {len(held)} optimizers: {', '.join(held)}" if held else "it has no hooks on its steps",
        why=f"{type(wrapper).__name__}.__init__ does not call that of torch.optim.Optimizer, which makes its hooks",
        next=f"optimizer=[{given}]"
        if held
        else "super().__init__(params, defaults) in its __init__; or leave out "
        "optimizer=, and call run.step() after each step",
    )


def refuse_others(options: WatchOptions, asked: str) -> None:
    """Raise BadOption for an optimizer that is given twice, for objects that are not optimizers or scalers, and for
    options that need an optimizer if there is none.
    """
    if len({*map(id, options.optimizers)}) < len(options.optimizers):
        raise BadOption(
            "an optimizer is given twice",
            asked=asked,
            why="a step ends as the last one steps",
            next="optimizer=[first, last], each of them once",
        )
    for optimizer in options.optimizers:
        OPTIMIZER.check(optimizer, asked)
    SCALER.check(options.scaler, asked)
    for name, value, typed in (
        ("what='update'", options.updates, "what=('value', 'grad', 'param', 'update')"),
        ("clipping=True", options.clipping, "clipping=True"),
        ("scaler=", options.scaler is not None, "scaler=scaler"),
    ):
        if value and not options.optimizers:
            raise BadOption(
                f"{name} needs optimizer=",
                asked=asked,
                why="it is read where the optimizer steps",
                next=f"bp.watch(model, folder, optimizer=optimizer, {typed})",
            )
