"""One of two processes with tensor parallelism: ``python dtensor_processes.py RANK PORT`` prints a line for each case.

The first process alone looks. One that waits for the other in vain fails after a minute. tests/test_dtensor_blocks.py
starts both.
"""

import datetime
import os
import sys
import tempfile
import traceback
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

import backprobe as bp

RANK = int(sys.argv[1])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.first, self.last = torch.nn.LayerNorm(4), torch.nn.Linear(4, 6), torch.nn.Linear(6, 4)

    def forward(self, x):
        normed = self.norm(x)
        normed = normed.full_tensor() if hasattr(normed, "full_tensor") else normed
        return self.last(self.first(normed).tanh())


def made():
    torch.manual_seed(0)
    plan = {"norm": SequenceParallel(), "first": ColwiseParallel(), "last": RowwiseParallel()}
    return parallelize_module(Net(), init_device_mesh("cpu", (2,)), plan)


def step(model):
    torch.manual_seed(1)
    model(torch.randn(1, 3, 4)).square().sum().backward()


def kept(model):
    return {name: (one.grad.placements, one.grad.to_local().clone()) for name, one in model.named_parameters()}


def assert_same(found, expected):
    for name, (placements, gradient) in expected.items():
        assert found[name][0] == placements, name
        assert torch.equal(found[name][1], gradient), name


def in_model(model):
    with bp.probe(model, ["**", "**:*"]) if RANK == 0 else nullcontext() as rec:
        step(model)
    return rec


def in_block(model):
    with bp.probe(partials=True, nonfinite=True) if RANK == 0 else nullcontext() as rec:
        step(model)
    return rec


def guarded(model):
    with bp.guard(model) if RANK == 0 else nullcontext():
        step(model)


def watched(model):
    folder = tempfile.mkdtemp() + "/run"
    with bp.watch(model, folder, rank=0) if RANK == 0 else nullcontext() as run:
        step(model)
        if RANK == 0:
            run.step()
    if RANK == 0:
        with bp.open_run(folder) as run:
            assert {name: gap.kind for gap in run.gaps.findings for name in gap.names}["norm.weight"] == "partial"


def main(port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=RANK, world_size=2, timeout=datetime.timedelta(seconds=60))
    bare = made()
    step(bare)
    expected = kept(bare)
    for case in (in_model, in_block, guarded, watched):
        try:
            model = made()
            rec = case(model)
            assert_same(kept(model), expected)
            if rec is not None:
                str(rec), str(bp.explain(rec))
            if case is in_model and RANK == 0:
                grads = {name: rec[name].grad for name in expected}
                assert_same({name: (one.placements, one.to_local()) for name, one in grads.items()}, expected)
            print(case.__name__, "ok", flush=True)
        except Exception:  # noqa: BLE001, it is told to the test, and the other process must not wait
            print(case.__name__, traceback.format_exc(), flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[2])
