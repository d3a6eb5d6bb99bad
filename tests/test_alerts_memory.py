"""Looking for alerts keeps no block of steps that it is done with."""

import gc
import tracemalloc

import backprobe as bp
from written_runs import fill, rows, writer


def test_a_block_that_was_judged_is_free_at_once(tmp_path, monkeypatch):
    """Without waiting for what refers to itself to be collected: arrays do not make Python look for that."""
    monkeypatch.setattr("backprobe.rules.judge.BLOCK", 128)
    names, steps = [f"h.{at}" for at in range(64)], 640
    one = writer(tmp_path)
    one.add_rows(rows(names, ["value", "grad"]))
    fill(one, range(steps), 128)
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
    column = 8 * 2 * len(names) * 128  # bytes of one, of a block
    assert kept < 6 * column, kept  # it was 17 of them
