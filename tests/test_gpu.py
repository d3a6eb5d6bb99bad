"""On a CUDA device: the same names, statuses and numbers, nothing moved to the CPU, nothing left in its memory."""

import gc

import pytest
import torch
import torch.nn.functional as F

import backprobe as bp
from backprobe.backends.torch.nonfinite import FinitenessLook

pytestmark = pytest.mark.gpu


def program(x, w):
    u = x @ w
    r = u[:, 0]
    u.mul_(2)
    u += 1
    h = F.relu(u, inplace=True)
    with torch.no_grad():
        quiet = h.sum()
    return (h * h).sum() + r.sum() * 3 + quiet


def test_a_function_on_the_device_equals_the_cpu():
    torch.manual_seed(0)
    x, w = torch.randn(4, 5, dtype=torch.float64), torch.randn(5, 3, dtype=torch.float64)
    expected, found = bp.probe(program)(x, w), bp.probe(program)(x.cuda(), w.cuda())
    assert list(found) == list(expected)
    for name, entry in expected.items():
        assert found[name].status == entry.status
        assert found[name].device == "cuda:0"
        if entry.grad_or_none is not None:
            assert found[name].grad.is_cuda
            assert torch.allclose(found[name].grad.cpu(), entry.grad)
    assert str(found).count("\n") == str(expected).count("\n")


@pytest.mark.parametrize("strategy", ["edges", "hooks", "retain_grad", "separate"])
def test_the_order_of_backward_on_the_device(strategy):
    fired = []
    x, w = (torch.tensor(value, device="cuda", requires_grad=True) for value in (3.0, 2.0))

    def toy(x, w):
        u = x * w
        v = u + 1
        return torch.relu(v)

    out = {"x": x, "w": w}
    out["u"] = x * w
    out["v"] = out["u"] + 1
    out["return"] = torch.relu(out["v"])
    for name, tensor in out.items():
        tensor.register_hook(lambda gradient, name=name: fired.append(name))
    out["return"].backward()
    fresh = [torch.tensor(value, device="cuda", requires_grad=True) for value in (3.0, 2.0)]
    assert bp.probe(toy, strategy=strategy)(*fresh).backward_order() == fired


def test_a_model_with_bfloat16_autocast_and_dropout():
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.ReLU(inplace=True), torch.nn.Dropout(0.3), torch.nn.Linear(32, 1)
    ).cuda()
    x = torch.randn(8, 16, device="cuda")

    def loss(out):
        return out.float().pow(2).mean()

    with torch.autocast("cuda", dtype=torch.bfloat16):
        torch.manual_seed(1)
        bare = loss(model(x))
        gradients = torch.autograd.grad(bare, list(model.parameters()))
        state = torch.cuda.get_rng_state()
        torch.manual_seed(1)
        rec = bp.probe(model, of=loss)(x)
    assert torch.equal(torch.cuda.get_rng_state(), state)
    assert torch.equal(rec["of()"].value, bare)
    for (name, _), gradient in zip(model.named_parameters(), gradients, strict=True):
        assert torch.equal(rec[name].grad, gradient)
    assert rec["0"].dtype == "bfloat16"
    assert torch.equal(rec["0"].grad, rec["1"].grad * (rec["0"].value > 0))


def test_memory_returns_to_what_it_was(tmp_path):
    x, w = torch.randn(512, 512, device="cuda"), torch.randn(512, 512, device="cuda")
    bp.probe(program)(x, w)
    gc.collect()
    before = torch.cuda.memory_allocated()
    gc.disable()
    try:
        rec = bp.probe(program)(x, w)
        rec.save(tmp_path / "rec")
        del rec
        assert torch.cuda.memory_allocated() == before
    finally:
        gc.enable()
    assert bp.load(tmp_path / "rec")["u#0"].value.device.type == "cpu"


def test_births_of_nan_are_told_on_the_device_as_on_the_cpu():
    def born(x):
        y = torch.where(x > 0, torch.log(x), 0)
        z = y / (x - x)
        return z.sum()

    def told(x):
        report = bp.explain(bp.probe(born, nonfinite=True)(x))
        return [(finding.kind, finding.name, finding.headline) for finding in report.findings]

    x = torch.tensor([0.0, 2.0])
    assert told(x.cuda()) == told(x)
    assert told(x)


def test_nothing_waits_for_the_device_until_all_is_over():
    judged, numbers = FinitenessLook(), torch.tensor([1.0, float("inf")], device="cuda")
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        places = [judged.add(numbers), judged.add(numbers[:1])]
    finally:
        torch.cuda.set_sync_debug_mode(mode)
    assert [judged.kinds()[at] for at in places] == ["inf", "finite"]
