"""NaN and Inf that is written into parameters: by which line of a block, and out of which gradient."""

import pytest
import torch
from torch import nn

import backprobe as bp
from asked import round_trip
from goldens import golden


def trained(lr=0.1, factor=1.0, turns=1, optimizer=torch.optim.SGD, clear=True):
    """A block by itself around a few steps; the recording and its report."""
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    opt = optimizer(model.parameters(), lr=lr)
    x = torch.ones(2, 3)
    with bp.probe(nonfinite=True) as rec:
        for _ in range(turns):
            opt.zero_grad(set_to_none=clear)
            loss = (model(x) * factor).sum()
            loss.backward()
            opt.step()
    return rec, bp.explain(rec)


def test_what_a_step_makes_of_finite_gradients_is_born_there():
    rec, report = trained(lr=float("inf"))
    (found,) = report.findings
    assert (found.kind, found.name) == ("born", "model.bias")
    golden("nonfinite", found)
    assert found.source.text == "opt.step()"


def test_what_comes_of_a_gradient_is_no_birth_of_its_own():
    rec, report = trained(factor=float("nan"))
    assert [(finding.kind, finding.name) for finding in report.findings][0] == ("unknown", "loss")
    (spread,) = [finding for finding in report.findings if "written" in finding.headline]
    assert spread.kind == "propagated"
    golden("nonfinite", spread)


def test_a_gradient_that_was_spoiled_after_backward():
    w = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=0.1)
    with bp.probe(nonfinite=True) as rec:
        loss = (w * 2).sum()
        loss.backward()
        w.grad.mul_(float("nan"))
        optimizer.step()
    found = bp.explain(rec).findings[0]
    assert (found.kind, found.source.text) == ("came_in", "optimizer.step()")
    golden("nonfinite", found)


def test_a_healthy_step_is_nothing():
    rec, report = trained(turns=3)
    assert report.ok
    assert rec.record.updates == ()


@pytest.mark.parametrize("clear", [True, False])
def test_a_later_step_is_told_with_the_first(clear):
    rec, report = trained(lr=float("inf"), turns=3, clear=clear)
    golden("nonfinite", report.findings[0])
    after = next(finding for finding in report.findings if finding.name == "loss#1")
    assert (after.kind, after.name) == ("unknown", "loss#1")
    golden("nonfinite", after)


@pytest.mark.parametrize("clear", [True, False])
def test_around_a_model_the_line_is_not_known(clear):
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=float("inf"))
    with bp.probe(model, nonfinite=True) as rec:
        for _ in range(2):
            optimizer.zero_grad(set_to_none=clear)
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
    found = bp.explain(rec).findings[0]
    assert (found.kind, found.source) == ("born", None)
    golden("nonfinite", found)


class Trainer:
    def __init__(self, lr):
        torch.manual_seed(0)
        self.model = nn.Linear(3, 1)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)

    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss


def test_in_a_method_of_an_object_that_has_the_model():
    trainer, x = Trainer(float("inf")), torch.ones(2, 3)
    with bp.probe(nonfinite=True) as rec:
        last = trainer.step(x)
    found = bp.explain(rec).of_kind("born")
    assert {finding.name for finding in found} == {"self.model.bias", "self.model.weight"}
    assert {finding.source.text for finding in found} == {"self.optimizer.step()"}
    assert {finding.facts for finding in found} == {("the optimizer: AdamW, lr inf",)}


def test_a_step_with_a_closure():
    torch.manual_seed(0)
    model, x = nn.Linear(3, 1), torch.ones(2, 3)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=float("inf"), max_iter=2)

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    with bp.probe(nonfinite=True) as rec:
        optimizer.step(closure)
    found = next(finding for finding in bp.explain(rec).findings if "written" in finding.headline)
    assert found.source.text == "optimizer.step(closure)"


def test_under_a_scaler_and_with_two_optimizers():
    torch.manual_seed(0)
    one, two, x = nn.Linear(3, 3), nn.Linear(3, 1), torch.ones(2, 3)
    first = torch.optim.SGD(one.parameters(), lr=0.1)
    second = torch.optim.SGD(two.parameters(), lr=float("inf"))
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with bp.probe(nonfinite=True) as rec:
        loss = two(one(x)).sum()
        scaler.scale(loss).backward()
        scaler.step(first)
        scaler.step(second)
        scaler.update()
    (found,) = bp.explain(rec).findings
    assert (found.kind, found.name) == ("born", "two.bias")
    golden("nonfinite", found)


def test_a_write_of_the_users_own_whose_reason_is_known_is_told_once():
    w = torch.tensor([0.0, 1.0], requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        loss = (w * 2).sum()
        loss.backward()
        with torch.no_grad():
            w /= w
    (found,) = bp.explain(rec).findings
    assert (found.headline, found.source.text) == ("NaN is born at 'w#1': 0/0", "w /= w")


def test_saved_and_loaded(tmp_path):
    rec, report = trained(lr=float("inf"))
    loaded = round_trip(rec, tmp_path)
    assert loaded.record.updates == rec.record.updates != ()
    assert bp.explain(loaded).findings[0].headline == report.findings[0].headline


@pytest.mark.filterwarnings("ignore")
def test_a_compiled_step_is_not_compiled_anew():
    from torch._dynamo.utils import counters

    w = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=0.1)

    @torch.compile(backend="eager")
    def compiled():
        optimizer.step()

    def turn():
        optimizer.zero_grad()
        (w * 2).sum().backward()
        compiled()

    turn()
    turn()
    before = counters["stats"]["unique_graphs"]
    with bp.probe(nonfinite=True):
        turn()
        turn()
    turn()
    assert counters["stats"]["unique_graphs"] == before
    torch._dynamo.reset()


def test_no_leaf_is_held_when_the_block_is_over():
    import gc
    import weakref

    def block():
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=float("inf"))
        with bp.probe(nonfinite=True) as rec:
            loss = model(torch.ones(2)).sum()
            loss.backward()
            optimizer.step()
        return rec, weakref.ref(model.weight)

    rec, weight = block()
    gc.collect()
    assert len(rec.record.updates) == 1
    assert weight() is None


# what models held before anything was seen to write to it


def spoiled(path, number):
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).eval()
    with torch.no_grad():
        dict([*net.named_parameters(), *net.named_buffers()])[path].view(-1)[0] = number
    return net


class Evaluated:
    def __init__(self, net):
        self.net = net

    def step(self, x):
        out = self.net(x)
        out.sum().backward()


def by_a_variable(net):
    with bp.probe(nonfinite=True) as rec:
        out = net(torch.ones(2, 3))
        loss = out.sum()
        loss.backward()
    return rec, bp.explain(rec), "net"


def by_an_attribute(net):
    evaluated = Evaluated(net)
    with bp.probe(nonfinite=True) as rec:
        evaluated.step(torch.ones(2, 3))
    return rec, bp.explain(rec), "self.net"


def in_a_guard(net):
    with pytest.raises(bp.NotFinite) as caught, bp.guard():
        out = net(torch.ones(2, 3))
        loss = out.sum()
        loss.backward()
    return None, caught.value.report, "net"


@pytest.mark.parametrize("path", ["0.weight", "0.bias", "1.weight"])
@pytest.mark.parametrize("explained", [by_a_variable, by_an_attribute, in_a_guard])
def test_nan_in_a_parameter_of_a_model_that_a_block_calls(path, explained):
    _, report, prefix = explained(spoiled(path, float("nan")))
    first = report.findings[0]
    assert (first.kind, first.name.endswith("out")) == ("came_in", True)
    golden("nonfinite", first)


@pytest.mark.parametrize(("path", "number"), [("1.running_mean", float("inf")), ("1.running_var", float("nan"))])
def test_nan_in_a_buffer_of_a_model_that_a_block_calls(path, number, tmp_path):
    rec, report, _ = by_a_variable(spoiled(path, number))
    assert report.findings[0].headline.endswith(f"comes in with 'net.{path}', at 'out'")
    assert bp.explain(round_trip(rec, tmp_path)).findings[0].headline == report.findings[0].headline


def test_a_model_that_was_well_when_it_began_is_not_blamed_for_what_it_is_given():
    net = nn.Linear(3, 1)
    with bp.probe(nonfinite=True) as rec:
        x = torch.zeros(2, 3)
        share = x / x.sum()
        loss = net(share).sum()
        loss.backward()
    assert bp.explain(rec).findings[0].headline == "NaN is born at 'share': 0/0"
    assert rec.record.updates == ()


def test_what_was_written_in_the_block_is_not_said_to_have_been_there_before():
    rec, report = trained(lr=float("inf"), turns=2)
    assert not [one for one in report.findings if "before anything was seen" in str(one)]
