"""Where several processes train together, no program runs again by itself: the others would have to run, too."""

import torch
import torch.distributed as dist

import backprobe as bp
from outside import note, noted


def f(x):
    note()
    return (x * 2).sum()


def test_explain_does_not_run_a_program_again_in_a_process_of_several(tmp_path):
    noted()  # what other tests have noted
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        report = bp.explain(bp.probe(f)(torch.ones(2)))
    finally:
        dist.destroy_process_group()
    assert len(noted()) == 1
    assert "f was not run again to look for useless gradients: it would make other processes wait" in report.notes
    bp.explain(bp.probe(f)(torch.ones(2)))
    assert len(noted()) == 2
