"""An executor for submitit: one thread for each job waits for its result."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any


class SubmititExecutor(ThreadPoolExecutor):
    """An executor that runs its tasks as submitit jobs.

    ``batches`` is the number of jobs, ``folder`` is submitit's folder.
    """

    def __init__(self, executor: Any, jobs: int) -> None:
        self.theirs, self.batches, self._jobs = executor, jobs, list[Any]()
        self.folder = Path(executor.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        super().__init__(jobs)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return super().submit(self._run, function, args)

    def _run(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        job = self.theirs.submit(function, *args)
        self._jobs.append(job)
        return job.result()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            for job in self._jobs:
                job.cancel()
        super().shutdown(wait, cancel_futures=cancel_futures)
