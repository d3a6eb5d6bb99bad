"""Processes that train together: read as one, their rows are those of one process on the whole batch."""

import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import backprobe as bp
from watch_processes import data, made, train

PROCESS = Path(__file__).parent / "watch_processes.py"


@pytest.mark.parametrize(("kind", "world"), [("DDP", 2), ("FSDP2", 2)])
def test_merged_rows_are_those_of_one_process(tmp_path, kind, world):
    train(made(), tmp_path / "one", data())
    started = [
        subprocess.Popen(
            [sys.executable, PROCESS, kind, str(rank), str(world), str(tmp_path)], stderr=subprocess.PIPE, text=True
        )
        for rank in range(world)
    ]
    for process in started:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    with bp.open_run(tmp_path / "one") as alone, bp.open_run(tmp_path / "run") as together:
        assert together.ranks == list(range(world))
        for field in ("value.count", "value.rms", "value.max", "grad.rms", "param.rms", "param.count", "update.rms"):
            names, steps, grid = alone.grid(field)
            assert steps.tolist() == together.steps.tolist()
            for name, expected in zip(names, grid, strict=True):
                spelled = f"module.{name}" if kind == "DDP" and name != "return" else name
                if field == "grad.rms" and "weight" not in name and "bias" not in name:
                    expected = expected * world  # each process's own loss is a mean over a part of the batch
                found = together.series(spelled, field)[1]
                numpy.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=f"{field} of {name}")
