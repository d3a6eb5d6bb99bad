"""Sharded parameters: DTensor and FSDP2, over two processes that talk by gloo. Each process asks, and reports."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from asks import Ask
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

FRAMEWORK, LIBRARIES = "PyTorch", ("torch",)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x):
        hidden = torch.relu(self.up(x))
        return self.down(hidden)


NAMES = ("up.weight", "up.bias", "down.weight", "down.bias")


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def plain_gradients(x):
    torch.manual_seed(0)
    net = Net()
    net(x).square().sum().backward()
    return [p.grad for p in net.parameters()]


# https://docs.pytorch.org/tutorials/intermediate/FSDP_tutorial.html
def sharded(around, steps=1, select=None):
    torch.manual_seed(0)
    net = Net()
    fully_shard(net.up), fully_shard(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    with around(net, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = net(x).square().sum()
            loss.backward()
            if steps > 1:
                optimizer.step()
    return seen, loss, [whole(p.grad) for p in net.parameters()], x


# https://docs.pytorch.org/tutorials/intermediate/TP_tutorial.html
def parallel(around, steps=1, select=None):
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2,))
    net = parallelize_module(Net(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    with around(net, select, optimizer=optimizer) as seen:
        for _ in range(steps):
            optimizer.zero_grad()
            loss = net(x).square().sum()
            loss.backward()
            if steps > 1:
                optimizer.step()
    return seen, loss, [whole(p.grad) for p in net.parameters()], x


# https://docs.pytorch.org/docs/stable/distributed.tensor.html: placements by hand
def placed(around):
    mesh = init_device_mesh("cpu", (2,))
    weight = torch.arange(8.0).reshape(4, 2)
    shard = distribute_tensor(weight, mesh, [Shard(0)]).requires_grad_()
    x = distribute_tensor(torch.ones(3, 4), mesh, [Replicate()])
    with around() as seen:
        out = x @ shard
        gathered = out.redistribute(mesh, [Replicate()])
        loss = gathered.full_tensor().square().sum()
        loss.backward()
    return seen, loss, whole(shard.grad)


def asked(rank, folder, which):
    os.environ["OMP_NUM_THREADS"] = "1"
    dist.init_process_group("gloo", init_method=f"file://{folder}/{which}", rank=rank, world_size=2)
    ask = Ask()
    try:
        ASKED[which](ask)
    except Exception as error:  # noqa: BLE001  # it is told to the process that waits
        ask.wrong.append(f"{type(error).__name__}: {error}")
    finally:
        torch.save((ask.right, ask.wrong), f"{folder}/{which}.{rank}")
        dist.destroy_process_group()


def of_training(ask, program):
    rec = ask.block(program)
    _, grads, x = ask.bare(program)
    for name, grad, right in zip(NAMES, grads, plain_gradients(x)):
        ask.that(torch.allclose(grad, right, rtol=1e-5, atol=1e-6), f"{name} of the plain model differs")
        found = rec[name].grad
        ask.that(torch.allclose(whole(found), right, rtol=1e-5, atol=1e-6), f"{name} is {whole(found)}, not {right}")
    ask.names(rec, "up", "down", "return")
    ask.clean(rec)
    last = ask.watched(program, 20)
    ask.rows(last, *NAMES)


def of_placements(ask):
    rec = ask.block(placed)
    _, grad = ask.bare(placed)
    weight = torch.arange(8.0).reshape(4, 2)
    right = torch.ones(3, 4).T @ (2 * torch.ones(3, 4) @ weight)
    ask.that(torch.allclose(grad, right), "the plain gradient differs")
    ask.that(torch.allclose(whole(rec["shard"].grad), right), f"shard is {rec['shard'].grad}")
    ask.gradients(rec, {"loss": 1.0})
    ask.names(rec, "shard", "out", "gathered", "x")
    ask.clean(rec)


def of_planted(ask):
    rec = ask.block(cut)
    ask.cut(rec, cut)
    rec = ask.block(nan, nonfinite=True)
    ask.nan(rec, nan)


def cut(around):
    mesh = init_device_mesh("cpu", (2,))
    shard = distribute_tensor(torch.arange(8.0).reshape(4, 2), mesh, [Shard(0)]).requires_grad_()
    other = torch.ones(2, requires_grad=True)
    with around() as seen:
        local = shard.to_local().detach()  # <- cut
        loss = (local * other).sum()
        loss.backward()
    return seen, loss, other.grad


def nan(around):
    mesh = init_device_mesh("cpu", (2,))
    shard = distribute_tensor(torch.arange(8.0).reshape(4, 2), mesh, [Shard(0)]).requires_grad_()
    with around() as seen:
        local = (shard * 0).to_local()
        root = local.sqrt()  # <- nan
        loss = root.sum()
        loss.backward()
    return seen, loss


ASKED = {
    "sharded": lambda ask: of_training(ask, sharded),
    "parallel": lambda ask: of_training(ask, parallel),
    "placed": of_placements,
    "planted": of_planted,
}


def in_two_processes(ask, folder, which):
    mp.spawn(asked, (str(folder), which), nprocs=2)
    for rank in range(2):
        right, wrong = torch.load(f"{folder}/{which}.{rank}")
        ask.right += right
        ask.wrong += [f"process {rank}: {each}" for each in wrong]


def test_fsdp2(ask, tmp_path):
    in_two_processes(ask, tmp_path, "sharded")
    ask.works("FSDP2 over two processes: the gradients of the whole model, and `bp.watch`")


def test_tensor_parallel(ask, tmp_path):
    in_two_processes(ask, tmp_path, "parallel")
    ask.works("tensor parallelism, column by row")


def test_placements(ask, tmp_path):
    in_two_processes(ask, tmp_path, "placed")
    ask.works("`DTensor` placements and `redistribute`, by hand")


def test_planted(ask, tmp_path):
    in_two_processes(ask, tmp_path, "planted")
