"""NaN that is written into parameters where no version tells: through ``.data``, in a helper, or out of sight."""

import pytest
import torch
from torch import nn

import backprobe as bp
from commands import invoked
from goldens import golden


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))


def through_data(parameters, lr=0.1):
    for p in parameters:
        p.data.sub_(lr * p.grad / p.grad.std())  # of one element: NaN


def by_data(parameters, lr=0.1):
    for p in parameters:
        p.data = p.data - lr * p.grad / p.grad.std()


def with_a_state(parameters, lr=0.1, state={}):  # noqa: B006  # as it is written
    for p in parameters:
        held = state.setdefault(p, torch.zeros_like(p))
        held.mul_(0.9).add_(p.grad / p.grad.std(), alpha=0.1)
        p.data.add_(held, alpha=-lr)


class Own(torch.optim.Optimizer):
    def __init__(self, parameters, lr=0.1):
        super().__init__(parameters, {"lr": lr})

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.add_(p.grad / p.grad.std(), alpha=-group["lr"])


def with_an_optimizer_of_its_own(parameters, lr=0.1):
    Own(parameters, lr).step()


UPDATES = [through_data, by_data, with_a_state, with_an_optimizer_of_its_own]


def trained(block, model, update, turns=3):
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    with block as rec:
        for _ in range(turns):
            model.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            update(model.parameters())
    return bp.explain(rec)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("update", UPDATES)
def test_a_block_names_the_line_that_wrote_through_data(update):
    report = trained(bp.probe(nonfinite=True), net(), update)
    first = report.findings[0]
    if update is with_a_state:  # it is born in what is written
        assert (first.kind, first.name) == ("born", "/with_a_state#0:held#7")
        first = next(one for one in report.findings if "is written into" in one.headline)
        assert (first.name, first.source.text) == ("model.2.bias", "p.data.add_(held, alpha=-lr)")
        return
    assert (first.kind, first.name) == ("born", "model.2.bias")
    assert "from finite gradients" in first.headline
    assert "p.data" in first.source.text


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("update", UPDATES)
def test_a_block_around_a_model_says_of_no_parameter_that_nan_came_in_with_it(update):
    report = trained(bp.probe(model := net(), nonfinite=True), model, update)
    assert not report.of_kind("came_in")
    assert not report.of_kind("healed")
    written = [one for one in report.findings if "is written into 'model.2.bias'" in one.headline]
    assert [one.headline.endswith("from finite gradients") for one in written] == [True]


def test_a_parameter_that_held_nan_is_still_said_to_bring_it():
    model = net()
    with torch.no_grad():
        model[2].bias.fill_(float("nan"))
    report = trained(bp.probe(model, nonfinite=True), model, lambda parameters: None)
    assert [(one.kind, one.name) for one in report.findings][0] == ("came_in", "2.bias")
    assert not any("written" in one.headline for one in report.findings)


def test_a_second_write_after_one_that_was_seen():
    model = net()

    def update(parameters):
        for p in parameters:
            with torch.no_grad():
                p.mul_(0.99)
        for p in model.parameters():
            p.data[:] = float("nan")

    report = trained(bp.probe(nonfinite=True), model, update)
    written = [one.headline for one in report.findings if "is written into" in one.headline]
    assert any("'model.2.bias'" in one and "from finite gradients" in one for one in written)


def test_healthy_updates_through_data_are_nothing():
    def update(parameters):
        for p in parameters:
            p.data.sub_(0.1 * p.grad)

    for block in (lambda model: bp.probe(nonfinite=True), lambda model: bp.probe(model, nonfinite=True)):
        model, bare = net(), net()
        torch.manual_seed(1)
        assert trained(block(model), model, update).ok
        torch.manual_seed(1)
        trained(bp.probe(), bare, update)
        assert all(map(torch.equal, model.parameters(), bare.parameters()))


SCRIPT = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
x, y = torch.randn(8, 3), torch.randn(8, 1)

def update(lr):
    total = sum(p.grad.abs().sum() for p in net.parameters())
    for p in net.parameters():
        p.data.sub_(lr * p.grad / p.grad.std())
    return total

for step in range(4):
    net.zero_grad()
    loss = ((net(x) - y) ** 2).mean()
    loss.backward()
    update(0.1)
"""


@pytest.mark.filterwarnings("ignore")
def test_a_script_stops_in_the_iteration_that_spoils_a_parameter(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    code, out, _ = invoked("explain", "--nonfinite", "train.py")
    assert code == 1
    golden("nonfinite", out)


@pytest.mark.filterwarnings("ignore")
def test_a_parameter_that_gets_its_name_beside_gradients_is_none_of_what_they_spread_to():
    model = net()
    with torch.no_grad():
        model[2].bias.fill_(float("nan"))
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    with bp.probe(nonfinite=True) as rec:
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        total = sum(p.grad.abs().sum() for p in model.parameters())
    report = bp.explain(rec)
    assert [one.kind for one in report.findings] == ["came_in", "propagated"]
    assert "p#3" not in report.findings[1].name
    assert total.isnan()
