"""The verb ``watch``: writes statistics of values, gradients and parameters during a training to a run on disk."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, cast

from backprobe.backends.watches import Fetching, FunctionWatching, Watching, WatchOptions
from backprobe.errors import BackprobeError, BadOption, NotFinite
from backprobe.guard.capture import check_path
from backprobe.markup import facts, shown
from backprobe.probe.request import asked_as, name_of, refuse_class
from backprobe.record.brief import cut, kind, written
from backprobe.record.disk import is_full
from backprobe.record.renamed import renamed
from backprobe.record.stamp import stamp
from backprobe.watch.options import DEFAULT, FUNCTIONS, KINDS, MODELS, Pace, Watchable, check_watch, flags_of
from backprobe.watch.saying import say, stopped
from backprobe.watch.sinks import Sink

if TYPE_CHECKING:  # importing backprobe imports no NumPy
    from backprobe.watch.background import Background
    from backprobe.watch.feeding import Feeding
    from backprobe.watch.steps import CountedSteps
    from backprobe.watch.targets import Watched

__all__ = ["Pace", "Watch", "watch", "watch_function"]

MODEL, FUNCTION = "bp.watch(model, folder{})", "bp.watch_function(loss_fn, folder{})"


@renamed(MODEL, MODELS)
def watch(
    model: Any,
    folder: str | os.PathLike[str],
    select: str | Sequence[str] | None = None,
    *,
    what: Watchable | Sequence[Watchable] = DEFAULT,
    every: int = 1,
    optimizer: Any = None,
    scaler: Any = None,
    clipping: bool = False,
    guard: bool | str | os.PathLike[str] = False,
    pace: Pace = Pace(),  # noqa: B008  # it is frozen
    sinks: Sequence[Sink] = (),
    start_step: int | None = None,
    rank: int | None = None,
) -> Watch:
    """Record statistics of a model's values and gradients, step by step, without changing its training.

    >>> import tempfile, torch, backprobe as bp
    >>> folder = tempfile.mkdtemp()  # or "runs/exp1"
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with bp.watch(model, folder, optimizer=optimizer) as run:
    ...     for x in torch.ones(3, 2, 3):
    ...         loss = model(x).square().mean()
    ...         loss.backward()
    ...         optimizer.step()
    ...         optimizer.zero_grad()
    ...         run.log(loss=loss)
    >>> with bp.open_run(folder) as run:
    ...     run.names, sorted(run.at(0)["0"])[:3]
    (['0', '1', '2', 'return', '0.weight', '0.bias', '2.weight', '2.bias', 'loss'], ['grad.absmax', 'grad.count', ...])

    Names are those of ``bp.probe(model)``: modules, whose return values are measured, and parameters. The numbers of a
    name cover all of its calls in a step. Calls without gradients, as in an evaluation, are not counted. A step is
    complete when the next one begins. If the folder already contains a run, the new steps follow its last step.

    - ``model``: a model of PyTorch, or of Keras with its optimizer. For loss functions of JAX see
      ``bp.watch_function``.
    - ``folder``: the folder to which the run is written. ``bp.open_run`` reads it.
    - ``select``: a pattern of names, or several patterns. None selects every module and parameter.
    - ``what``: one or several of "value", "grad", "param" and "update". "value" measures ``value.*`` of return values,
      and "grad" measures ``grad.*`` of return values and of parameters, as the optimizer uses them. "param" measures
      ``param.*`` of parameters, and "update" measures ``update.*``, the changes of parameters in a step. The latter
      needs a copy of the parameters.
    - ``every``: if n, only steps whose numbers are multiples of n are measured.
    - ``optimizer``: its step ends a step of the run. Of several optimizers, the last one does; where that one does not
      step, the last of those that do. Without an optimizer, or in a ``tf.function``, call ``run.step()`` to end a step.
    - ``scaler``: a ``GradScaler`` of PyTorch. Its update then ends a step instead.
    - ``clipping``: if True, also measure ``grad_backward.*``, the gradients of parameters before they were clipped.
    - ``guard``: if True, raise NotFinite at the first NaN or Inf, like ``bp.guard(model)``. The run includes that step.
      If it is the path of a new folder, the failing step is also written to this folder, for ``bp.replay``.
    - ``pace``: how soon steps are on disk, and in which steps ``run.histogram`` has magnitudes.
    - ``sinks``: sinks of ``backprobe.integrations``, such as those for TensorBoard and Weights & Biases, which receive
      some of the numbers as well.
    - ``start_step``: the number of the first step, instead of the one after the last step.
    - ``rank``: the number of this process, if several train together. By default ``torch.distributed`` provides it.

    Raises BadOption, BadRun, BadName, NoBackend, NothingMatched and Unsupported. If the run can no longer be written,
    this is only reported as a warning, and the training continues.
    """
    asked = f"bp.watch({asked_as(model)}, {cut(written(folder))})"
    check_watch(locals(), asked, MODEL.format(""))
    if not isinstance(guard, bool):
        check_path(guard, f"guard={os.fspath(guard)!r}", "guard='bad-step'")
    optimizers = () if optimizer is None else tuple(optimizer) if isinstance(optimizer, list | tuple) else (optimizer,)
    options = WatchOptions(select, *flags_of(what), clipping, optimizers, scaler, magnitudes=pace.histogram > 0)
    return Watch(model, Path(folder), options, pace, start_step, rank, tuple(sinks), every=every, guard=guard)


@renamed(FUNCTION, FUNCTIONS)
def watch_function(
    loss_fn: Callable[..., Any],
    folder: str | os.PathLike[str],
    select: str | Sequence[str] | None = None,
    *,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    what: Watchable | Sequence[Watchable] = DEFAULT,
    every: int = 1,
    pace: Pace = Pace(),  # noqa: B008  # it is frozen
    sinks: Sequence[Sink] = (),
    start_step: int | None = None,
    rank: int | None = None,
) -> Watch:
    """Record statistics of a JAX loss function's values and gradients, step by step, during a training.

    In a training whose step is compiled::

        with bp.watch_function(loss_fn, "runs/exp1") as run:

            @jax.jit
            def step(params, opt_state, batch):
                (loss, stats), grads = run.value_and_grad(params, batch)
                updates, opt_state = optimizer.update(grads, opt_state)
                return optax.apply_updates(params, updates), opt_state, stats

            for batch in batches:
                params, opt_state, stats = step(params, opt_state, batch)
                run.record(stats)

    ``run.value_and_grad`` replaces ``jax.value_and_grad(loss_fn, argnums, has_aux)`` inside your ``jax.jit``. Outside
    of it, ``run.record(stats)`` ends a step.

    - ``loss_fn``: a function of the parameters that returns the loss.
    - ``folder``, ``every``, ``pace``, ``sinks`` and ``start_step``: as in ``bp.watch``.
    - ``select``: a pattern of names, or several patterns. Names are locals of the function, and parameters such as
      ``params.w``.
    - ``argnums``: the position of the argument to differentiate, or several positions, as in ``jax.grad``.
    - ``has_aux``: if True, the function returns ``(loss, aux)``.
    - ``what``: one or several of "value" (of locals), "grad" (of locals and parameters), and "param".
    - ``rank``: the number of this process, if several train together. By default JAX provides it.

    Raises the errors of ``bp.watch``.
    """
    asked = f"bp.watch_function({asked_as(loss_fn)}, {cut(written(folder))})"
    check_watch(locals(), asked, FUNCTION.format(""))
    options = WatchOptions(select, *flags_of(what), magnitudes=pace.histogram > 0, argnums=argnums, has_aux=has_aux)
    given = start_step, rank, tuple(sinks)
    return Watch(loss_fn, Path(folder), options, pace, *given, every=every, is_function=True)


def _obstacle(folder: Path) -> str:
    # Say which existing file prevents the creation of the folder: a file with the folder's path, or with the path of a
    # folder above it. Empty if there is no such file.
    try:
        found = [one for one in (folder, *folder.parents) if one.exists() and not one.is_dir()]
    except (OSError, ValueError):
        return ""
    return f"{found[0]} is a file" if found else ""


class Watch:
    """A watched training, used in a ``with`` statement. ``bp.open_run`` reads the run that it writes."""

    def __init__(
        self,
        model: Any,
        folder: Path,
        options: WatchOptions,
        pace: Pace,
        start_step: int | None,
        rank: int | None,
        sinks: Sequence[Any] = (),
        *,
        every: int = 1,
        guard: bool | str | os.PathLike[str] = False,
        is_function: bool = False,
    ) -> None:
        self.folder = folder
        """The folder of the run."""
        self._model, self._options, self._pace, self._start, self._rank = model, options, pace, start_step, rank
        self._every, self._guard, self._is_function = every, guard, is_function
        self._watching: Watching | None = None
        self._function: FunctionWatching | None = None
        self._background: Background | None = None
        self._sinks, self._feeding = sinks, cast("Feeding | None", None)
        self._warned = False
        self._opened = ExitStack()

    def __enter__(self) -> Watch:
        asked = self._asked
        found = self._target(asked)
        from backprobe.watch.guarded import guarding
        from backprobe.watch.steps import CountedSteps

        listener = CountedSteps(self._every, self._pace.histogram, self._hand_on, found.fetching.later)
        watching = found.watching(self._model, self._options, listener, asked)
        self._start_writing(found, listener, asked)
        self._fetching, self._listener, self._watching = found.fetching, listener, watching
        self._function = watching if self._is_function else None
        try:
            with ExitStack() as opened:
                opened.enter_context(watching)
                if self._guard is not False:
                    folder = None if self._guard is True else self._guard
                    opened.enter_context(guarding(self._model, found.backend, listener, asked, folder))
                self._opened = opened.pop_all()
        except BaseException:
            self._close()
            raise
        atexit.register(self._end_with_interpreter)
        return self

    @property
    def _asked(self) -> str:
        return f"bp.watch{'_function' * self._is_function}({name_of(self._model)}, {str(self.folder)!r})"

    def _target(self, asked: str) -> Watched:
        # The backend of the target, and the way in which it watches the target. Raises BadOption.
        refuse_class(self._model, "watch", in_block=True)
        if self._background is not None:
            raise BadOption(
                "this watch was entered already", asked=asked, next="another bp.watch(...) of the same folder"
            )
        from backprobe.watch.targets import watched_function, watched_model

        return (watched_function if self._is_function else watched_model)(self._model, asked)

    def _start_writing(self, found: Watched, listener: CountedSteps, asked: str) -> None:
        # Open the run on disk, and the sinks. Raises BadOption.
        from backprobe.storage.runs.writer import RunWriter
        from backprobe.watch.background import Background

        rank = found.fetching.rank() if self._rank is None else self._rank
        facts = {**self._facts(), **found.untrained(self._model, self._options)}
        try:
            writer = RunWriter(self.folder, rank, facts, asked)
        except BackprobeError:
            raise
        except (OSError, ValueError) as error:  # ValueError for a NUL in the path
            raise BadOption(
                f"{self.folder} cannot be written",
                asked=asked,
                found=_obstacle(self.folder) or str(error),
                next=f"{'make room on the disk, or ' * is_full(error)}a folder that can be written",
            ) from error
        try:
            listener.start(writer.next_step if self._start is None else self._start)
            if self._sinks and rank == 0:
                from backprobe.watch.feeding import Feeding

                self._feeding = Feeding(self._sinks, self.folder, listener.first)
            fed = None if self._feeding is None else self._feeding.put
            self._background = Background(writer, self._pace.flush, fed)
        except BaseException:
            writer.abandon()
            self._close()
            raise

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises BadOption: a watch is entered with ``with``, and not called like a probe."""
        raise BadOption(
            "a watch is not called: it watches what runs within `with`",
            asked=f"{self._asked}(...)",
            next=f"with {self._asked}: around the training loop",
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watching is None or self._background is None:
            raise BadOption(
                "this watch is not open",
                asked="run.__exit__(...)",
                found="a watch that was never entered",
                next="with bp.watch(model, folder) as run:",
            )
        atexit.unregister(self._end_with_interpreter)
        if isinstance(error, NotFinite):
            self._listener.end()  # end the step of the error, which may be incomplete
        try:
            self._opened.close()
        finally:
            self._listener.stop()
            self._close()
        if not self._background.is_here:  # a forked child: the run belongs to its parent
            return
        self._warn()
        if error is None and not self._listener.was_called and self._listener.current.step > self._listener.first:
            say(
                "bp.watch saw no call of the model, and recorded its parameters alone: calls in other threads and "
                "under torch.no_grad() are not seen."
            )

    # Methods to call during the training.

    def step(self) -> None:
        """End a step if no ``optimizer=`` does: after ``backward()``, before ``zero_grad()``. Raises BadOption."""
        self._open("run.step()").step()

    def value_and_grad(self, *args: Any, **kwargs: Any) -> Any:
        """In JAX, ``((loss, stats), grads)`` of the loss function; with ``has_aux``, ``(((loss, aux), stats), grads)``.

        Call it inside the function that ``jax.jit`` compiles; ``stats`` is computed there. Loss and gradients are those
        of ``jax.value_and_grad``. Raises BadOption, BadOutput, NothingToDifferentiate and NothingMatched.
        """
        return self._functional("run.value_and_grad(...)").value_and_grad(args, kwargs)

    def record(self, stats: Any, updates: Any = None) -> None:
        """End a step of a loss function, given the statistics that it returned. This does not wait for the device.

        ``stats`` may belong to several runs of the function, in a list or stacked by ``jax.lax.scan``; they are merged.
        ``updates`` are the changes that the step adds to the parameters, in the structure of the gradients. Raises
        BadOption.
        """
        self._functional("run.record(...)").record(stats, updates)

    def log(self, **scalars: Any) -> None:
        """Record numbers of your own for a step, such as a loss or a learning rate. This does not wait for a device.

        They belong to the current step, or between two steps to the one that has just ended. Several numbers of one
        name in a step become their mean. ``run.series("loss", "logged")`` reads them. Raises BadOption.
        """
        self._open("run.log(...)")
        for name, number in scalars.items():
            if not name:
                raise BadOption(
                    "a number that is logged has a name",
                    asked="run.log(**{'': ...})",
                    found="an empty text",
                    next="run.log(loss=loss)",
                )
            try:
                if isinstance(number, str | bytes):
                    raise TypeError("a text")
                row = self._fetching.scalar(number)
            except BackprobeError:
                raise
            except (TypeError, ValueError) as error:
                raise BadOption(
                    f"run.log takes single numbers, and {name} is not one",
                    asked=f"run.log({name}=...)",
                    found=kind(number),
                    next=f"run.log({name}={name}.mean())",
                ) from error
            self._listener.log(name, row)

    def flush(self) -> None:
        """Return when all steps so far are on disk, and would survive if this process is killed.

        If they cannot be written, this is reported as a warning.
        """
        self._open("run.flush()")
        self._listener.hand_on()
        if self._background is not None:
            self._background.flush()
        self._warn()

    @property
    def current_step(self) -> int:
        """The number of the current step, or of the next one if none has begun. Raises BadOption."""
        self._open("run.current_step")
        return self._listener.current.step

    @property
    def acknowledged(self) -> int:
        """The last step that is safely on disk; -1 if there is none yet."""
        return -1 if self._background is None else self._background.acknowledged

    # Internal methods.

    def _open(self, asked: str) -> Watching:
        if self._watching is None or (self._listener.is_stopped and not self._warned):
            raise BadOption(
                "this watch is not open",
                asked=asked,
                found="a use of it outside of its with block",
                next="with bp.watch(model, folder) as run:",
            )
        return self._watching

    def _close(self) -> None:
        # Write everything, then send it to the sinks.
        if self._background is not None:
            self._background.close()
        if self._feeding is not None:
            self._feeding.close()

    def _end_with_interpreter(self) -> None:
        # The interpreter exits while the block is open. Write the steps that have been measured so far.
        self._listener.stop()
        self._close()
        self._warn()

    def _functional(self, asked: str) -> FunctionWatching:
        self._open(asked)
        if self._function is None:
            raise BadOption(
                "this watch is of a model, and not of a loss function",
                asked=asked,
                found=kind(self._model),
                next="loss.backward() and optimizer.step(), or run.step(), of the model in the block",
            )
        return self._function

    def _hand_on(self, step: Any) -> None:
        # A step is complete: pass it to the thread that writes.
        if self._background is None:
            return
        self._warn()
        if self._background.failure is None:
            self._background.put(step)

    def _warn(self) -> None:
        # Warn once about each sink that failed, and once if the run cannot be written. In that case nothing more is
        # measured.
        for news in () if self._feeding is None else self._feeding.news():
            say(f"bp.watch: {news}")
        failure = None if self._background is None else self._background.failure
        if failure is None or self._warned or self._watching is None:
            return
        self._warned = True
        self._watching.stop()
        self._listener.is_stopped = True
        say(stopped(self.folder, failure, self.acknowledged))

    def _facts(self) -> dict[str, Any]:
        known = stamp()
        what = [kind for kind, is_asked in zip(KINDS, self._options.kinds, strict=True) if is_asked]
        return {
            "started": known.time,
            "author": known.author,
            "python": known.python,
            "system": known.system,
            "packages": known.packages,
            "model": type(self._model).__name__,
            **vars(self._pace),
            "every": self._every,
            "guard": self._guard is not False,
            "what": what,
            "optimizers": [type(one).__name__ for one in self._options.optimizers],
        }

    def __repr__(self) -> str:
        state = "" if self._background is None else f", step {self._listener.current.step}"
        return f"<Watch of {type(self._model).__name__} in {str(self.folder)!r}{state}>"

    def _repr_html_(self) -> str:
        return shown(facts(repr(self)[1:-1], []))

    _listener: CountedSteps
    _fetching: Fetching
