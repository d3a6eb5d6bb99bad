"""One of two processes that train together: ``python block_processes.py RANK PORT`` prints a line for each case.

A case that fails prints its traceback. tests/test_block_processes.py starts both processes.
"""

import contextlib
import datetime
import os
import sys
import traceback

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import backprobe as bp

RANK = int(sys.argv[1])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        hidden = self.first(x)
        turned = hidden.tanh()
        return self.second(turned)


def averaged():
    torch.manual_seed(0)
    return nn.parallel.DistributedDataParallel(Net())


def sharded():
    torch.manual_seed(0)
    model, mesh = Net(), init_device_mesh("cpu", (2,))
    fully_shard(model.first, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def batch(number=0):
    torch.manual_seed(10 * number + RANK + 1)
    return torch.randn(3, 4)


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def kept(model):
    return {name: local(p.grad).clone() for name, p in model.named_parameters()}


def assert_same(rec, model, expected=None):
    """Each parameter's entry is bitwise what is in its ``.grad``, and that is what it is without a probe."""
    for name, parameter in model.named_parameters():
        assert type(rec[name].grad) is type(parameter.grad), name
        assert torch.equal(local(rec[name].grad), local(parameter.grad)), name
        assert expected is None or torch.equal(local(parameter.grad), expected[name]), name


def step(model, number=0):
    loss = model(batch(number)).sum()
    loss.backward()
    return loss


def one_step(make):
    model = make()
    step(model)
    bare = kept(model)
    for select in (["**", "**:*"], ["**.weight", "**.bias"], None):
        model.zero_grad()
        with bp.probe(model, select) as rec:
            loss = step(model)
        assert_same(rec, model, bare)
        weights_alone = select is not None and len(select) == 2 and ":" not in select[-1]
        # FSDP puts other tensors in the place of its parameters: where these alone are selected, no hook is on the way
        assert [entry.status for entry in rec.outputs] == ([] if weights_alone and make is sharded else ["ok"])
        if select and ":" in select[-1]:
            place = "module:" if make is averaged else ""
            assert rec[f"{place}turned"].status == rec[f"{place}hidden"].status == "ok"
    model.zero_grad()
    with bp.probe() as rec:
        x = batch()
        y = model(x)
        loss = y.sum()
        loss.backward()
    assert torch.equal(rec["y"].grad, torch.ones(3, 1))
    assert rec[f"/{type(getattr(model, 'module', model)).__name__}:turned"].status == "ok"
    for name, gradient in kept(model).items():
        assert torch.equal(gradient, bare[name]), name


def micro_batches(make):
    model = make()

    def both():
        if make is averaged:
            with model.no_sync():
                step(model, 1)
        else:
            model.set_requires_gradient_sync(False)
            step(model, 1)
            model.set_requires_gradient_sync(True)
        step(model, 2)

    both()
    bare = kept(model)
    model.zero_grad()
    with bp.probe(model) as rec:
        both()
    assert_same(rec, model, bare)
    model.zero_grad()
    with bp.probe(model) as rec:
        step(model, 1)
        first = kept(model)
        model.zero_grad()
        step(model, 2)
    for name, gradient in kept(model).items():
        assert torch.equal(local(rec[name].grad), first[name] + gradient), name


def accumulated_before(make):
    model = make()
    step(model, 1)
    before = kept(model)
    with bp.probe(model) as rec:
        step(model, 2)
    after = kept(model)
    model.zero_grad()
    step(model, 2)
    for name, gradient in kept(model).items():
        assert torch.allclose(local(rec[name].grad), gradient, rtol=1e-5, atol=1e-6), name
        assert torch.equal(local(rec[name].grad), after[name] - before[name]), name


def parameters_alone(make):
    """Passes that only the parameters tell of."""
    model, alone = make(), ["**.weight", "**.bias"]
    with bp.probe(model, alone) as rec:
        assert rec.grads() == {}
        step(model, 1)
        assert len([name for name in rec.grads() if "(" not in name]) == 4
        step(model, 2)
    assert_same(rec, model)
    with bp.probe(model, alone) as rec:
        step(model, 3)
    statuses = {(entry.status, entry.reason) for entry in rec.values() if "(" not in entry.name}
    if make is averaged:
        assert statuses == {("ok", "")}
    else:
        ((status, reason),) = statuses
        assert status == "opaque"
        assert reason.startswith("its .grad was not empty before the block")


def one_rank_probes(make):
    model = make()
    step(model)
    bare = kept(model)
    model.zero_grad()
    with bp.probe(model, ["**", "**:*"]) if RANK == 0 else contextlib.nullcontext() as rec:
        step(model)
    for name, gradient in kept(model).items():
        assert torch.equal(gradient, bare[name]), name
    if RANK == 0:
        assert_same(rec, model)


def one_rank_prints(make):
    model = make()
    with bp.probe(model, ["**", "**:*"]) as rec:
        step(model)
        if RANK == 1:
            str(rec)
    if RANK == 0:
        text = str(rec)
        assert "second.weight" in text
        repr(rec)
        rec.grads()
        _ = rec["first.weight" if make is sharded else "module.first.weight"].value


CASES = (one_step, micro_batches, accumulated_before, parameters_alone, one_rank_probes, one_rank_prints)

SHARDS = hasattr(torch.cpu.Stream(), "record_event")
"""Without that, FSDP2 of older releases does not run on a CPU."""


def main(port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=RANK, world_size=2, timeout=datetime.timedelta(seconds=60))
    for make in (averaged, sharded) if SHARDS else (averaged,):
        for case in CASES:
            try:
                case(make)
                print(make.__name__, case.__name__, "ok", flush=True)
            except Exception:  # noqa: BLE001, it is told to the test, and the other process must not wait
                print(make.__name__, case.__name__, traceback.format_exc(), flush=True)
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[2])
