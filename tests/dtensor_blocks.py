"""What is communicated for a probe of DTensors: ``python dtensor_blocks.py`` prints a line of JSON for each placement.

The process group is a fake one: nothing is sent, and every collective that is called is counted.
"""

import json
import tempfile

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.profiler import ProfilerActivity, profile
from torch.testing._internal.distributed.fake_pg import FakeStore

import backprobe as bp

PLACEMENTS = {
    "rows": [Shard(0)],
    "columns": [Shard(1)],
    "whole": [Replicate()],
    "a sum": [Partial()],
    "a mean": [Partial("avg")],
    "a maximum": [Partial("max")],
    "rows and columns": [Shard(0), Shard(1)],
    "rows twice": [Shard(0), Shard(0)],
    "a sum and whole": [Partial(), Replicate()],
    "rows and a sum": [Shard(0), Partial()],
    "a sum twice": [Partial(), Partial()],
    "a mean and columns": [Partial("avg"), Shard(1)],
}


class Arriving(torch.autograd.Function):
    """A loss whose gradient arrives with the placements that it is given."""

    @staticmethod
    def forward(ctx, weight, mesh, placements, local):
        ctx.given = local, mesh, placements
        return weight.to_local().sum()

    @staticmethod
    def backward(ctx, gradient):
        return DTensor.from_local(*ctx.given, run_check=False), None, None, None


class Net(torch.nn.Module):
    def __init__(self, mesh, placements):
        super().__init__()
        torch.manual_seed(0)
        self.given = mesh, placements, torch.randn(4, 4)
        shape = DTensor.from_local(self.given[2], mesh, placements, run_check=False).shape
        whole = DTensor.from_local(torch.randn(shape), mesh, [Replicate()] * mesh.ndim, run_check=False)
        self.weight = torch.nn.Parameter(whole)

    def forward(self, x):
        doubled = self.weight * 2
        return Arriving.apply(doubled, *self.given) * x


class Direct(Net):
    """Nothing lies between the parameter and the loss."""

    def forward(self, x):
        return Arriving.apply(self.weight, *self.given) * x


def once(net):
    net(torch.ones(())).backward()


def twice(net):
    once(net)
    once(net)


def later(net):
    """What is in ``.grad`` already is added to."""
    net.weight.grad = net.given_before
    once(net)


def asked(net):
    weight = net.weight
    doubled = weight * 2
    loss = Arriving.apply(doubled, *net.given)
    torch.autograd.grad(loss, [weight, doubled])


def read(rec):
    """All that is said of a recording."""
    str(rec), repr(rec), str(bp.explain(rec))
    for entry in rec.values():
        repr(entry), entry.grad_or_none
    return rec


def in_model(step, **options):
    def probed(net):
        with bp.probe(net, **options) as rec:
            step(net)
        return read(rec)

    return probed


def in_block(step, **options):
    def probed(net):
        with bp.probe(**options) as rec:
            step(net)
        return read(rec)

    return probed


def guarded(net):
    with bp.guard(net):
        once(net)


def guarded_block(net):
    with bp.guard():
        loss = net(torch.ones(()))
        loss.backward()


def watched(net):
    folder = tempfile.mkdtemp() + "/run"
    with bp.watch(net, folder, pace=bp.Pace(histogram=1)) as run:
        once(net)
        run.step()
    with bp.open_run(folder) as run:
        rows = sorted({field.partition(".")[0] for field in run.at(0).get("weight", {})})
        return rows, [(name, gap.kind, gap.kinds) for gap in run.gaps.findings for name in gap.names]


FORMS = {
    "model": (once, in_model(once)),
    "model, twice": (twice, in_model(twice)),
    "model, .grad before": (later, in_model(later)),
    "block": (once, in_block(once)),
    "block, nonfinite": (once, in_block(once, nonfinite=True)),
    "block, copies": (once, in_block(once, values="copy")),
    "block, create_graph": (once, in_block(once, create_graph=True)),
    "block, partials": (once, in_block(once, partials=True)),
    "block, grad()": (asked, in_block(asked)),
    "guard of a model": (once, guarded),
    "guard of a block": (once, guarded_block),
    "watch": (once, watched),
}


def made(kind, mesh, placements):
    """A net, and what is in its ``.grad`` where a form begins with that."""
    net, earlier = kind(mesh, placements), kind(mesh, placements)
    once(earlier)
    net.given_before = earlier.weight.grad
    return net


def counted(run, net):
    """How often which collective is called, and what the run returns. No mode of PyTorch's hides a call from this."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        found = run(net)
    names = [event.name for event in seen.events() if event.name.startswith("c10d::")]
    return {name: names.count(name) for name in sorted(set(names))}, found


def is_same(one, other):
    return one.placements == other.placements and torch.equal(one.to_local(), other.to_local())


def judged(kind, mesh, placements):
    """Of each form, whether it communicates as the bare step, and leaves and says the same gradients."""
    found = {}
    for form, (bare, probed) in FORMS.items():
        alone, observed = made(kind, mesh, placements), made(kind, mesh, placements)
        expected, _ = counted(bare, alone)
        calls, what = counted(probed, observed)
        found[form] = {"bare": expected, "probed": calls}
        if alone.weight.grad is not None:
            found[form]["left"] = is_same(alone.weight.grad, observed.weight.grad)
        if form.startswith("model"):
            entry = what["weight"]
            added = made(kind, mesh, placements)
            (once if form.endswith("before") else bare)(added)
            found[form]["said"] = str(entry.status), entry.why.code if entry.why else ""
            found[form]["is_said_right"] = entry.grad_or_none is None or is_same(entry.grad, added.weight.grad)
        if form == "watch":
            found[form]["rows"], found[form]["gaps"] = what
    return found


def main():
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    flat, square = init_device_mesh("cpu", (4,)), init_device_mesh("cpu", (2, 2))
    for name, placements in PLACEMENTS.items():
        mesh = flat if len(placements) == 1 else square
        found = {kind.__name__: judged(kind, mesh, placements) for kind in (Net, Direct)}
        print(json.dumps([name, found]), flush=True)


if __name__ == "__main__":
    main()
