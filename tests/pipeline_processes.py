"""Two stages of a pipeline, each in a process of its own: ``python tests/pipeline_processes.py FOLDER`` is the second.

What each has seen is written as JSON; the test is the first stage, and starts the second.
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

import backprobe as bp

MICROBATCHES = 4
LOSS = torch.nn.functional.mse_loss


def parts():
    torch.manual_seed(0)
    first = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
    return [first, torch.nn.Sequential(torch.nn.Linear(4, 2))]


def batch():
    torch.manual_seed(1)
    return torch.randn(8, 3), torch.randn(8, 2)


def part_of_two(model, at):
    """A stage of two. On PyTorch 2.9 stages first send each other a number of 8 bytes where they expect 4, so that gloo
    aborts; it needs no such greeting, and there it is left out.
    """
    made = PipelineStage(model, at, 2, torch.device("cpu"))
    greeting = getattr(made, "_get_init_p2p_neighbors_ops", list)
    if len({sent.tensor.element_size() for sent in greeting()}) > 1:
        made._get_init_p2p_neighbors_ops = list
    return made


def stage(rank, folder):
    """Run one step of a stage under a probe: what the recording says, and the ``.grad`` that the schedule leaves."""
    meeting = f"file://{Path(folder, 'rendezvous')}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    model, (x, target) = parts()[rank], batch()
    schedule = ScheduleGPipe(part_of_two(model, rank), MICROBATCHES, loss_fn=LOSS)
    try:
        with bp.probe(model) as rec:
            schedule.step(x) if rank == 0 else schedule.step(target=target)
    finally:
        dist.destroy_process_group()
    return {
        "statuses": {name: str(entry.status) for name, entry in rec.items()},
        "notes": rec.notes,
        "entries": {name: rec[name].grad.tolist() for name, _ in model.named_parameters()},
        "grads": {name: parameter.grad.tolist() for name, parameter in model.named_parameters()},
        "explained": bp.explain(rec).ok,
        "health": bp.health(rec).ok,
    }


if __name__ == "__main__":
    Path(sys.argv[1], "second.json").write_text(json.dumps(stage(1, sys.argv[1])))
