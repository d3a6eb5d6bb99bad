"""Pipelines and context parallelism over two processes: each has a part of the model, or a part of the sequence."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from asks import Ask
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor.experimental import context_parallel
from torch.nn.functional import scaled_dot_product_attention

import backprobe as bp

FRAMEWORK, LIBRARIES = "PyTorch", ("torch",)


def layers():
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Sequential(nn.Linear(8, 2))]


def batch():
    given = torch.Generator().manual_seed(1)
    return torch.randn(8, 4, generator=given), torch.randn(8, 2, generator=given)


def by_hand():
    """The gradients of the whole model, whose loss is the mean over the microbatches."""
    model = nn.Sequential(*layers())
    x, y = batch()
    losses = [nn.functional.mse_loss(model(one), other) for one, other in zip(x.chunk(2), y.chunk(2), strict=True)]
    (sum(losses) / len(losses)).backward()
    return [[p.grad for p in part.parameters()] for part in model]


# https://docs.pytorch.org/docs/stable/distributed.pipelining.html
def piped(around, schedule=ScheduleGPipe, steps=1, select=None):
    rank = dist.get_rank()
    part = layers()[rank]
    stage = PipelineStage(part, rank, 2, torch.device("cpu"))
    runs = schedule(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    x, y = batch()
    losses = []
    with around(part, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            runs.step(x) if rank == 0 else runs.step(target=y, losses=losses)
            if steps > 1:
                optimizer.step()
    return seen, losses, [p.grad for p in part.parameters()], [p.detach() for p in part.parameters()]


def of_pipeline(ask, schedule):
    rec = ask.block(piped, schedule)
    _, grads, _ = ask.bare(piped, schedule)
    for name, grad, right in zip(("0.weight", "0.bias"), grads, by_hand()[dist.get_rank()], strict=True):
        ask.that(torch.allclose(grad, right, rtol=1e-5, atol=1e-7), f"{name} of the whole model differs")
        ask.gradients(rec, {name: right})
    ask.names(rec, "0", "0.weight", "0.bias")
    ask.clean(rec)
    ask.rows(ask.watched(piped, schedule, 20), "0.weight", "0.bias")


class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(4, 4, bias=False) for _ in range(3))

    def forward(self, x):
        q, k, v = (one(x)[:, None] for one in (self.query, self.key, self.value))
        mixed = scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed


def attended():
    torch.manual_seed(0)
    model = Attending()
    x = torch.randn(1, 8, 4, generator=torch.Generator().manual_seed(1))
    model(x).square().sum().backward()
    return [p.grad for p in model.parameters()]


# https://docs.pytorch.org/tutorials/unstable/context_parallel.html
def contextual(around):
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2,))
    model = Attending()
    x = torch.randn(1, 8, 4, generator=torch.Generator().manual_seed(1))
    with context_parallel(mesh, buffers=[x], buffer_seq_dims=[1]), around(model) as seen:
        loss = model(x).square().sum()
        loss.backward()
    return seen, loss, [p.grad for p in model.parameters()]


def of_context(ask):
    """Each process has the gradient of its part of the sequence: together they are those of the whole."""
    try:
        _, grads = ask.bare(contextual)
    except (RuntimeError, NotImplementedError) as error:
        ask.wrong.append(f"context parallelism does not run here by itself: {error}")
        return
    rec = ask.block(contextual)
    for name, grad, right in zip(("query", "key", "value"), grads, attended(), strict=True):
        ask.gradients(rec, {f"{name}.weight": grad})
        total = grad.clone()
        dist.all_reduce(total)
        ask.that(torch.allclose(total, right, rtol=1e-4, atol=1e-5), f"{name} of the whole sequence differs")
    ask.names(rec, "query", "key", "value")
    ask.clean(rec)


class Cut(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 8)

    def forward(self, x):
        hidden = self.first(x).detach()  # <- cut
        return self.second(hidden)


class Nan(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)

    def forward(self, x):
        hidden = self.first(x) * 0
        return hidden.sqrt()  # <- nan


def planted(around, kind):
    rank = dist.get_rank()
    torch.manual_seed(0)
    part = (kind(), nn.Linear(8, 2))[rank]
    runs = ScheduleGPipe(
        PipelineStage(part, rank, 2, torch.device("cpu")), n_microbatches=2, loss_fn=nn.functional.mse_loss
    )
    x, y = batch()
    with around(part, ["**", ":*"]) as seen:
        runs.step(x) if rank == 0 else runs.step(target=y)
    return seen, [p.grad for p in part.parameters()]


def of_planted(ask):
    rec = ask.block(planted, Cut)
    if dist.get_rank() == 0:
        ask.cut(rec, Cut.forward)
        ask.statuses(rec, {"first.weight": "not_connected"})
    rec = ask.block(planted, Nan, nonfinite=True)
    if dist.get_rank() == 0:
        ask.nan(rec, Nan.forward)
    else:
        ask.that(not bp.explain(rec).ok, "the gradients of the second part are NaN too")


ASKED = {
    "gpipe": lambda ask: of_pipeline(ask, ScheduleGPipe),
    "one forward, one backward": lambda ask: of_pipeline(ask, Schedule1F1B),
    "context": of_context,
    "planted": of_planted,
}


def asked(rank, folder, which):
    os.environ["OMP_NUM_THREADS"] = "1"
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=2)
    ask = Ask()
    try:
        ASKED[which](ask)
    except Exception as error:  # noqa: BLE001  # it is told to the process that waits
        ask.wrong.append(f"{type(error).__name__}: {error}")
    finally:
        torch.save((ask.right, ask.wrong), f"{folder}/{rank}")
        dist.destroy_process_group()


def in_two_processes(ask, folder, which):
    mp.spawn(asked, (str(folder), which), nprocs=2)
    for rank in range(2):
        right, wrong = torch.load(f"{folder}/{rank}")
        ask.right += right
        ask.wrong += [f"process {rank}: {each}" for each in wrong]


def test_pipeline(ask, tmp_path):
    in_two_processes(ask, tmp_path, "gpipe")
    ask.works("pipelines: each process has the gradients of its part, as the whole model has them")


def test_pipeline_of_alternating_passes(ask, tmp_path):
    in_two_processes(ask, tmp_path, "one forward, one backward")
    ask.works("`Schedule1F1B`, and `bp.watch`")


def test_context_parallelism(ask, tmp_path):
    in_two_processes(ask, tmp_path, "context")
    ask.works("context parallelism: each process has the gradient of its part of the sequence")


def test_planted(ask, tmp_path):
    in_two_processes(ask, tmp_path, "planted")
