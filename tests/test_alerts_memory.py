"""Looking for alerts keeps no block of steps that it is done with."""

import gc
import tracemalloc

import backprobe as bp
from written_runs import fill, rows, writer

BLOCK = 16  # steps


def test_a_block_that_was_judged_is_free_at_once(tmp_path, monkeypatch):
    """Without waiting for what refers to itself to be collected: arrays do not make Python look for that."""
    monkeypatch.setattr("backprobe.rules.judge.FEWEST", BLOCK)
    monkeypatch.setattr("backprobe.rules.judge.MOST", BLOCK)
    names, steps = [f"h.{at}" for at in range(8)], 400
    one = writer(tmp_path)
    one.add_rows([*rows(names, ["value", "grad"]), *rows(["loss"], ["logged"])])
    fill(one, range(steps), 2 * len(names) + 1)
    one.close()
    with bp.open_run(tmp_path) as run:
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            assert run.alerts is not None
            kept = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
            gc.enable()
    assert kept < 250_000, kept  # else each window keeps what was logged up to it
