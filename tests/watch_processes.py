"""Processes that train together under watch: python watch_processes.py KIND WORLD FOLDER prints their exit codes."""

import json
import os
import signal
import sys
import traceback
from collections import OrderedDict
from contextlib import nullcontext, suppress
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.profiler import ProfilerActivity, profile

import backprobe as bp

STEPS, BATCH, MICROBATCHES = 4, 8, 4


def made():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def loss_of(y, target=None):
    return y.square().mean()


def data():
    return torch.randn(STEPS, BATCH, 3, generator=torch.Generator().manual_seed(1))


def train(model, folder, batches, watches=True):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    with (
        bp.watch(model, folder, optimizer=optimizer, what=("value", "grad", "param", "update"))
        if watches
        else nullcontext()
    ):
        for x in batches:
            loss_of(model(x)).backward()
            optimizer.step()
            optimizer.zero_grad()


def averaged(model, rank, world):
    return nn.parallel.DistributedDataParallel(model)


def sharded(model, rank, world):
    for part in (model[0], model[2], model):
        fully_shard(part, mesh=dist.init_device_mesh("cpu", (world,)))
    return model


def parallel(model, rank, world):
    """Columns of the first layer, and rows of the last: each process has a part of every hidden value."""
    mesh = dist.init_device_mesh("cpu", (world,))
    return parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})


def in_stages(model, rank, folder, batches, watches):
    """A pipeline of two processes; each watches its own part, under the names of the whole."""
    del model[2 if rank == 0 else slice(0, 2)]
    if rank:
        model = nn.Sequential(OrderedDict([("2", model[0])]))
    stage = PipelineStage(model, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, MICROBATCHES, loss_fn=loss_of)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    watch = (
        bp.watch(model, folder, optimizer=optimizer, what=("value", "grad", "param", "update"))
        if watches
        else nullcontext()
    )
    with watch:
        for x in batches:
            schedule.step(x) if rank == 0 else schedule.step(target=torch.zeros(len(x), 2))
            optimizer.step()
            optimizer.zero_grad()


KINDS = {"DDP": averaged, "FSDP2": sharded, "TP": parallel}


def counted(train):
    """How often which collective runs in a training."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        train()
    names = [event.name for event in seen.events() if event.name.startswith("c10d::")]
    return {name: names.count(name) for name in sorted(set(names))}


def together(kind, rank, world, folder):
    """Train without a watch, and with one; what has been communicated is written."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    batches = data() if kind in ("TP", "pipeline") else data()[:, rank::world]

    def once(watches):
        if kind == "pipeline":
            in_stages(made(), rank, f"{folder}/run", batches, watches)
        else:
            train(KINDS[kind](made(), rank, world), f"{folder}/run", batches, watches)

    calls = [counted(lambda: once(watches=False)), counted(lambda: once(watches=True))]
    Path(folder, f"collectives-{rank}.json").write_text(json.dumps(calls))
    dist.barrier()
    dist.destroy_process_group()


def dying(kind, rank, world, folder):
    """The last process dies in the third step, when two are acknowledged."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    model = averaged(made(), rank, world)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    with suppress(RuntimeError), bp.watch(model, f"{folder}/run", optimizer=optimizer) as run:
        for step, x in enumerate(data()[:, rank::world]):
            if step == 2 and rank == world - 1:
                run.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            loss_of(model(x)).backward()  # where the others wait, and learn of it
            optimizer.step()
            optimizer.zero_grad()


def main(kind, world, folder):
    """Fork the processes: PyTorch is imported once."""
    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                (dying if kind == "dying" else together)(kind, rank, world, folder)
                code = 0
            except BaseException:
                traceback.print_exc()
                raise
            finally:
                os._exit(code)
        children.append(child)
    print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
