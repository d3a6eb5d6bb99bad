"""Pipelines and context parallelism over two processes: each has a part of the model, or a part of the sequence."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from asks import Ask
from torch import nn
from torch.distributed._functional_collectives import all_gather_single_autograd
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
)
from torch.distributed.tensor.experimental import context_parallel
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import mse_loss

FRAMEWORK, LIBRARIES = "PyTorch", ("torch",)
PROCESSES, MICROBATCHES = 2, 4


def layers():
    torch.manual_seed(0)
    sizes = (4, 8, 8, 8, 2)
    return [nn.Sequential(nn.Linear(*size), nn.Tanh()) for size in zip(sizes, sizes[1:], strict=False)]


def batch():
    given = torch.Generator().manual_seed(1)
    return torch.randn(8, 4, generator=given), torch.randn(8, 2, generator=given)


def by_hand():
    """The gradients of the whole model, whose loss is the mean over the microbatches, by number of its part."""
    model = nn.ModuleList(layers())
    out, y = batch()
    for part in model:
        out = part(out)
    losses = [mse_loss(*each) for each in zip(out.chunk(MICROBATCHES), y.chunk(MICROBATCHES), strict=True)]
    (sum(losses) / MICROBATCHES).backward()
    return [{name: p.grad for name, p in part.named_parameters()} for part in model]


def own_parts(schedule, rank):
    """The numbers of the parts that a process has: V-shaped schedules give the first process the last part too."""
    return [rank, 2 * PROCESSES - 1 - rank] if "V" in schedule.__name__ else [rank, rank + PROCESSES]


# https://docs.pytorch.org/docs/stable/distributed.pipelining.html
def piped(around, schedule, steps=1):
    rank = dist.get_rank()
    whole = nn.Sequential(*layers()[2 * rank : 2 * rank + 2])
    stage = PipelineStage(whole, rank, PROCESSES, torch.device("cpu"))
    return trained(around, whole, schedule(stage, MICROBATCHES, loss_fn=mse_loss), steps, rank == PROCESSES - 1)


def interleaved(around, schedule, steps=1):
    rank = dist.get_rank()
    numbers = own_parts(schedule, rank)
    model = nn.ModuleDict({str(number): layers()[number] for number in numbers})
    stages = [PipelineStage(model[str(number)], number, 2 * PROCESSES, torch.device("cpu")) for number in numbers]
    return trained(around, model, schedule(stages, MICROBATCHES, loss_fn=mse_loss), steps, 2 * PROCESSES - 1 in numbers)


def trained(around, model, schedule, steps, is_last):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    (x, y), losses = batch(), []
    given = (x,) if dist.get_rank() == 0 else ()
    with around(model, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            schedule.step(*given, target=y, losses=losses) if is_last else schedule.step(*given)
            if steps > 1:
                optimizer.step()
    grads = {name: p.grad for name, p in model.named_parameters()}
    return seen, losses, grads, [p.detach() for p in model.parameters()]


def of_pipeline(ask, program, schedule, parts):
    """A schedule divides ``.grad`` by the number of microbatches after the last backward, and a note says so."""
    rec = ask.block(program, schedule)
    _, grads, _ = ask.bare(program, schedule)
    right = by_hand()
    for name, number, inner in parts(dist.get_rank()):
        hand = right[number][inner]
        ask.that(torch.allclose(grads[name], hand, rtol=1e-5, atol=1e-7), f"{name} of the whole model differs")
        ask.gradients(rec, {name: hand * MICROBATCHES})
    ask.notes(rec, f"divided .grad by {MICROBATCHES} after backward")
    ask.clean(rec)
    ask.rows(ask.watched(program, schedule, 20), *[name for name, *_ in parts(dist.get_rank())])


def two_each(rank):
    return [(f"{at}.0.{kind}", 2 * rank + at, f"0.{kind}") for at in range(2) for kind in ("weight", "bias")]


def by_number(schedule):
    return lambda rank: [
        (f"{number}.0.{kind}", number, f"0.{kind}")
        for number in own_parts(schedule, rank)
        for kind in ("weight", "bias")
    ]


class Attending(nn.Module):
    """Attention over a sequence, of which each process has a part."""

    def __init__(self, gathers):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(4, 4, bias=False) for _ in range(3))
        self.gathers = gathers

    def forward(self, x):
        q, k, v = (one(x)[:, None] for one in (self.query, self.key, self.value))
        if self.gathers:
            k = all_gather_single_autograd(k, 2, dist.group.WORLD)
            v = all_gather_single_autograd(v, 2, dist.group.WORLD)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return mixed


def sequence():
    return torch.randn(1, 8, 4, generator=torch.Generator().manual_seed(1))


def attended():
    torch.manual_seed(0)
    model = Attending(False)
    with sdpa_kernel(SDPBackend.MATH):
        model(sequence()).square().sum().backward()
    return [p.grad for p in model.parameters()]


# https://docs.pytorch.org/tutorials/unstable/context_parallel.html, on a CPU by the attention that is made of products
def contextual(around, steps=1):
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (PROCESSES,))
    model = Attending(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = sequence()
    with sdpa_kernel(SDPBackend.MATH), context_parallel(mesh, buffers=[x], buffer_seq_dims=[1]):
        return attending(around, model, optimizer, x, steps)


# keys and values gathered from all processes, as the decoders that are trained on long texts have it
def gathered(around, steps=1):
    torch.manual_seed(0)
    model = Attending(True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with sdpa_kernel(SDPBackend.MATH):
        return attending(around, model, optimizer, sequence().chunk(PROCESSES, 1)[dist.get_rank()], steps)


def attending(around, model, optimizer, x, steps):
    with around(model, ["**", ":*"], optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            if steps > 1:
                optimizer.step()
    return seen, loss, [p.grad for p in model.parameters()]


def of_context(ask, program):
    """Each process has the gradient of its part of the sequence: together they are those of the whole."""
    _, grads = ask.bare(program)
    rec = ask.block(program)
    for name, grad, right in zip(("query", "key", "value"), grads, attended(), strict=True):
        ask.gradients(rec, {f"{name}.weight": grad})
        total = grad.clone()
        dist.all_reduce(total)
        ask.that(torch.allclose(total, right, rtol=1e-4, atol=1e-5), f"{name} of the whole sequence differs")
    ask.names(rec, "query", "key", "value", ":q", ":mixed")
    ask.clean(rec)
    ask.rows(ask.watched(program, 20), "query.weight", "key.weight", "value.weight")


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
    runs = ScheduleGPipe(PipelineStage(part, rank, PROCESSES, torch.device("cpu")), MICROBATCHES, loss_fn=mse_loss)
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
        ask.clean(rec)


ASKED = {
    "gpipe": lambda ask: of_pipeline(ask, piped, ScheduleGPipe, two_each),
    "alternating": lambda ask: of_pipeline(ask, piped, Schedule1F1B, two_each),
    "interleaved": lambda ask: of_pipeline(
        ask, interleaved, ScheduleInterleaved1F1B, by_number(ScheduleInterleaved1F1B)
    ),
    "zero bubble": lambda ask: of_pipeline(
        ask, interleaved, ScheduleInterleavedZeroBubble, by_number(ScheduleInterleavedZeroBubble)
    ),
    "v": lambda ask: of_pipeline(ask, interleaved, ScheduleZBVZeroBubble, by_number(ScheduleZBVZeroBubble)),
    "context": lambda ask: of_context(ask, contextual),
    "gathered": lambda ask: of_context(ask, gathered),
    "planted": of_planted,
}


def asked(rank, folder, which):
    os.environ["OMP_NUM_THREADS"] = "1"
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=PROCESSES)
    ask = Ask()
    try:
        ASKED[which](ask)
    except Exception as error:  # noqa: BLE001  # it is told to the process that waits
        ask.wrong.append(f"{type(error).__name__}: {error}")
    finally:
        torch.save((ask.right, ask.wrong), f"{folder}/{rank}")
        dist.destroy_process_group()


def in_two_processes(ask, folder, which):
    mp.spawn(asked, (str(folder), which), nprocs=PROCESSES)
    for rank in range(PROCESSES):
        right, wrong = torch.load(f"{folder}/{rank}")
        ask.right += right
        ask.wrong += [f"process {rank}: {each}" for each in wrong]


def test_pipeline(ask, tmp_path):
    in_two_processes(ask, tmp_path, "gpipe")
    ask.works("pipelines: each process has the gradients of its part, and `bp.watch`")


def test_pipeline_of_alternating_passes(ask, tmp_path):
    in_two_processes(ask, tmp_path, "alternating")


def test_pipeline_with_two_parts_a_process(ask, tmp_path):
    in_two_processes(ask, tmp_path, "interleaved")
    ask.works("`Schedule1F1B`, `ScheduleInterleaved1F1B`")


def test_pipeline_that_takes_gradients_of_weights_later(ask, tmp_path):
    in_two_processes(ask, tmp_path, "zero bubble")


def test_pipeline_whose_first_process_has_the_last_part(ask, tmp_path):
    in_two_processes(ask, tmp_path, "v")
    ask.works("`ScheduleInterleavedZeroBubble`, `ScheduleZBVZeroBubble`: both halves of backward as one")


def test_context_parallelism(ask, tmp_path):
    in_two_processes(ask, tmp_path, "context")
    ask.works("`context_parallel`: each process has the gradient of its part of the sequence")
    ask.select("on a CPU `sdpa_kernel(SDPBackend.MATH)` around `context_parallel`, without `is_causal`")


def test_gathered_keys_and_values(ask, tmp_path):
    in_two_processes(ask, tmp_path, "gathered")
    ask.works("keys and values that are gathered from all processes")


def test_planted(ask, tmp_path):
    in_two_processes(ask, tmp_path, "planted")
