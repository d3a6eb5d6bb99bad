"""The verb ``guard``: stops the program at the first NaN or Inf, with the report of ``explain``."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from types import FrameType, TracebackType
from typing import Any, NoReturn

from backprobe.backends.discover import find_backend, imported_backends, is_model
from backprobe.backends.protocol import Backend
from backprobe.backends.refusals import refuse
from backprobe.backends.user_lines import users_frames
from backprobe.errors import BadOption, NoBackend
from backprobe.guard import text
from backprobe.guard.allowed import Allowed
from backprobe.guard.block_guard import BlockGuard
from backprobe.guard.capture import FailureCapture, captures_of, check_path
from backprobe.guard.gradient_guard import GradientGuard
from backprobe.guard.model_guard import ModelGuard
from backprobe.markup import facts, shown
from backprobe.probe.probe_class import users_frame
from backprobe.probe.request import asked_as, refuse_class
from backprobe.record.brief import cut, kind, written
from backprobe.record.containers import leaves
from backprobe.source.bytecode import names_loaded
from backprobe.source.frames import name_in


def guard(
    model: Any = None, *, allow: str | Sequence[str] = (), capture: str | os.PathLike[str] | None = None
) -> Guard:
    """Raise ``NotFinite`` at the end of the forward call or ``backward()`` in which the first NaN or Inf arises.

    >>> import torch, backprobe as bp
    >>> w = torch.ones(2, requires_grad=True)
    >>> def training():
    ...     with bp.guard():
    ...         for scale in (1.0, 0.0):
    ...             total = (w * scale).sum()
    ...             loss = torch.sqrt(total)
    ...             loss.backward()
    >>> try:
    ...     training()
    ... except bp.NotFinite as error:
    ...     error.report.findings[0].headline
    "Inf is born in the backward of 'loss': the derivative of sqrt is infinite at 0"

    With a *model*, the guard checks the return value of each call, and the gradients of the parameters after each
    ``backward()`` through the model. If one of these is not finite, the call is repeated under a probe, with the same
    inputs, buffers and random state, and the error's ``report`` is the report of ``bp.explain`` on that recording. If
    NaN or Inf came from outside the call, or if the call cannot be repeated or is finite the second time, the report
    says so instead. NaN or Inf inside the model that reaches neither, such as a mask of -Inf before a softmax, does
    not raise.

    Without a model, the guard checks the variables of the block and of the functions that it calls, from one
    ``backward()`` to the next.

    - ``model`` is the model to guard, of any framework.
    - ``allow`` are patterns of names: outputs and parameters that are not checked, and places where NaN or Inf may
      begin.
    - ``capture`` is a new folder, into which the first failing step is written: the batch, parameters, buffers and
      random states from before the forward pass, and the recording. ``bp.replay`` runs the step again. Except in JAX,
      this option requires a model.

    Gradients of a loss that a ``GradScaler`` has scaled do not raise while it can lower its scale, because it then
    skips the step.

    In TensorFlow, the model is a Keras model, and gradients are checked when the program computes them eagerly with a
    tape. A guard sees nothing of compiled functions, and warns about them when it ends.

    In JAX, it checks the results of ``jax.grad`` and ``jax.value_and_grad`` outside of ``jit``, and the values of the
    differentiated functions. With an Equinox or Flax NNX model it checks what calls return, also under ``jax.vmap``. A
    gradient that is not finite is computed again under a probe.

    Raises BadOption, NoBackend and Unsupported at the start of the block, and NotFinite inside it.
    """
    if capture is not None:
        spelled = repr(os.fspath(capture)) if isinstance(capture, str | os.PathLike) else cut(written(capture))
        asked = f"bp.guard({'' if model is None else f'{asked_as(model)}, '}capture={spelled})"
        check_path(capture, asked, "bp.guard(model, capture='bad-step')")
    return Guard(model, Allowed(allow), capture)


class Guard:
    """The guard of a model or a block, which ``bp.guard`` returns for use in a ``with`` statement."""

    def __init__(self, model: Any, allowed: Allowed, capture: str | os.PathLike[str] | None = None) -> None:
        self.model, self.allowed, self.capture = model, allowed, capture
        self.open: list[tuple[AbstractContextManager[object], FrameType, Backend | None]] = []

    def __repr__(self) -> str:
        return f"<Guard of {self._about()}>"

    def _repr_html_(self) -> str:
        return shown(facts(f"Guard of {self._about()}", []))

    def _about(self) -> str:
        return "a block" if self.model is None else type(self.model).__name__

    def __enter__(self) -> None:
        frame = users_frame(sys._getframe(1))
        backend = _backend_of(frame) if self.model is None else None
        opened = self._around_model() if backend is None else self._around_block(frame, backend)
        opened.__enter__()
        self.open.append((opened, frame, backend))

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise BadOption, because a guard is a context manager and is not called like a probe."""
        is_model = callable(self.model) and hasattr(self.model, "parameters")
        raise BadOption(
            "a guard is not called: it guards what runs within `with`",
            asked=f"bp.guard({'' if self.model is None else asked_as(self.model)})(...)",
            next="with bp.guard(model): model(x)" if is_model else "with bp.guard(): around what calls it",
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.open:
            raise BadOption(
                "this guard is not open",
                asked="guard.__exit__(...)",
                found="a guard that was never entered",
                next="with bp.guard():",
            )
        opened, frame, backend = self.open.pop()
        opened.__exit__(kind, error, trace)
        if error is None and backend is not None:
            _warn_of_others(opened, frame, backend)

    def _around_model(self) -> AbstractContextManager[object]:
        asked = f"with bp.guard({asked_as(self.model)}):"
        refuse_class(self.model, "guard", in_block=True)
        backend = None if isinstance(self.model, str | int | float) else find_backend(None, [self.model])
        if backend is None or not is_model(backend, self.model):
            raise BadOption(
                "`with bp.guard(...)` takes a model, or nothing",
                asked=asked,
                found=kind(self.model),
                next="with bp.guard(): around what calls it",
            )
        guards = backend.guards or refuse(backend, "guards", asked)
        guard = ModelGuard(self.model, backend, self.allowed, self._capture(backend))
        return guards.listening(self.model, guard.listener())

    def _capture(self, backend: Backend) -> FailureCapture | None:
        if self.capture is None:
            return None
        model = "" if self.model is None else f"{asked_as(self.model)}, "
        captures = captures_of(backend, f"with bp.guard({model}capture={written(self.capture)}):")
        return FailureCapture(self.capture, self.model, captures)

    def _around_block(self, frame: FrameType, backend: Backend) -> AbstractContextManager[object]:
        asked = "with bp.guard():"
        guards = backend.guards or refuse(backend, "guards", asked)
        if guards.blocks is None and guards.functions is not None:
            guard = GradientGuard(backend, self.allowed, self._capture(backend))
            return guards.functions(guard.listener())
        if self.capture is not None:
            raise BadOption(
                "capture= takes a model",
                asked=f"with bp.guard(capture={written(self.capture)}):",
                why="a step is written as the calls of a model, which another process can make again",
                next=f"with bp.guard(model, capture={written(self.capture)}):",
            )
        blocks = guards.blocks or refuse(backend, "block_guards", asked)
        return BlockGuard(backend, blocks(), self.allowed, frame)


def _held(frame: FrameType) -> list[Any]:
    # Return the values of the names that a frame's code reads, with those inside containers.
    return [leaf for name in names_loaded(frame.f_code) for _, leaf in leaves(name_in(frame, name))]


def _warn_of_others(opened: object, frame: FrameType, guarded: Backend) -> None:
    # Warn at the end of a block without a backward pass, if its values belong to other frameworks than the guarded one.
    if isinstance(opened, BlockGuard) and opened.has_passed:
        return
    held = _held(frame)
    owners = [one for one in imported_backends() if any(one.arrays.is_tensor(value) for value in held)]
    if owners and guarded not in owners:
        warnings.warn(text.unheard([one.title for one in owners], guarded.title), UserWarning, stacklevel=3)


def _backend_of(frame: FrameType) -> Backend:
    # Return the backend of the values that the block can read, or else one that its function or a caller mentions.
    for one in users_frames(frame):
        held = _held(one)
        with suppress(NoBackend):
            return find_backend(None, [*held, one], mixed=False)
    raise NoBackend(
        "cannot infer the framework of this block",
        asked="with bp.guard():",
        found="several frameworks, or none, are imported, and no function that runs mentions one",
        why="a guard listens to one framework",
        next="the block in a function that mentions one framework alone, or with bp.guard(model):",
    )


__all__ = ["Guard", "guard"]
