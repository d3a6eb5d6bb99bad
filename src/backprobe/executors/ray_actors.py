"""An executor for Ray: one thread for each Ray actor passes it one task after another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class _Actor:
    # Runs tasks in a Ray process.
    def run(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        return function(*args)


class RayExecutor(ThreadPoolExecutor):
    """An executor that runs its tasks in Ray actors."""

    def __init__(self, num_workers: int, options: dict[str, Any]) -> None:
        import ray

        if not ray.is_initialized():
            ray.init(include_dashboard=False, log_to_driver=False)
        self._ray, self._own = ray, threading.local()
        self._kind = ray.remote(**{"num_cpus": 1, **options})(_Actor)
        self._actors: list[Any] = []
        super().__init__(num_workers)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return super().submit(self._run, function, args)

    def _run(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        actor = getattr(self._own, "actor", None)
        if actor is None:
            actor = self._own.actor = self._kind.remote()
            self._actors.append(actor)
        try:
            return self._ray.get(actor.run.remote(function, args))
        except self._ray.exceptions.RayActorError:  # the next task of this thread gets a new actor
            self._own.actor = None
            raise

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait, cancel_futures=cancel_futures)
        for actor in self._actors if self._ray.is_initialized() else ():
            self._ray.kill(actor)
        self._actors.clear()
