"""Executors that run tasks of ``sweep``, ``attribute``, ``noise_floor`` and ``provoke`` in other processes.

The option ``executor=`` of these verbs accepts any ``concurrent.futures.Executor`` of processes, such as a
``ProcessPoolExecutor`` or Dask's ``client.get_executor()``. The two functions here make executors for libraries that
have none.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

from backprobe.errors import installed
from backprobe.record.options import Option

__all__ = ["ray", "submitit"]

EXECUTOR = Option(
    "executor",
    Executor,
    None,
    "concurrent.futures.ProcessPoolExecutor(2)",
    or_none=True,
    says="a concurrent.futures.Executor",
    why="bp.executors.ray(2) and bp.executors.submitit(executor) make one",
)


def ray(num_workers: int, **options: Any) -> Executor:
    """Make an executor with this many Ray workers, each a process that keeps the model between its tasks.

    ``with bp.executors.ray(4) as executor: bp.sweep(model, "h.*", replace=torch.zeros_like, executor=executor)(x)``

    - ``num_workers`` is the number of workers. One that dies is replaced.
    - ``options`` are options of a Ray actor, such as ``num_gpus=1``. By default each worker has one CPU.

    Ray is started if it is not running. Raises NotInstalled and BadOption.
    """
    Option("num_workers", int, 1, "2").check(num_workers)
    installed("ray", asked="bp.executors.ray")
    from backprobe.executors.ray_actors import RayExecutor

    return RayExecutor(num_workers, options)


def submitit(executor: Any, jobs: int = 8) -> Executor:
    """Make an executor that passes its tasks to submitit, as jobs of Slurm or processes of this machine.

    ``with bp.executors.submitit(submitit.AutoExecutor("logs")) as executor: ...``

    - ``executor`` is a submitit executor. The model is written once into its folder.
    - ``jobs`` is the largest number of jobs. Each job runs many tasks, because it starts a process.

    Raises NotInstalled and BadOption.
    """
    Option("jobs", int, 1, "8").check(jobs)
    theirs = installed("submitit", asked="bp.executors.submitit")
    Option("executor", theirs.Executor, None, "submitit.AutoExecutor('logs')", says="an executor of submitit").check(
        executor
    )
    from backprobe.executors.submitit_jobs import SubmititExecutor

    return SubmititExecutor(executor, jobs)
