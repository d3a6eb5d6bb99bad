"""A loss that grows from step to step until it overflows: what to do is not in the line where it does."""

import pytest
import torch
from torch import nn

import backprobe as bp
from commands import invoked
from goldens import golden

SCRIPT = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 16), nn.Linear(16, 1)

    def forward(self, x):
        h = torch.relu(self.first(x))
        return self.second(h)

torch.manual_seed(0)
net = MODEL
optimizer = torch.optim.SGD(net.parameters(), lr=5.0)
x, y = torch.randn(64, 3) * 3, torch.randn(64, 1)
for epoch in range(50):
    optimizer.zero_grad()
    loss = LOSS
    loss.backward()
    optimizer.step()
"""
MODELS = {"own": "Net()", "library": "nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))"}
LOSSES = {"by hand": "((net(x) - y) ** 2).mean()", "of the library": "nn.functional.mse_loss(net(x), y)"}
REMEDY = "a smaller learning rate; or torch.nn.utils.clip_grad_norm_(parameters, 1.0) before the optimizer's step()"


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_script_that_diverges(model, loss, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT.replace("MODEL", model).replace("LOSS", loss))
    code, out, _ = invoked("explain", "--nonfinite", "train.py")
    assert code == 1
    first = out.split("  2. ")[0]
    golden("nonfinite", first)
    assert REMEDY in " ".join(first.split())


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))


def train(model, lr, steps, block):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    x, y = torch.randn(64, 3) * 3, torch.randn(64, 1)
    with block as rec:
        for _ in range(steps):
            optimizer.zero_grad()
            out = model(x)
            loss = ((out - y) ** 2).mean()
            loss.backward()
            optimizer.step()
    return bp.explain(rec)


def test_a_block_of_several_steps_that_diverges():
    first = train(net(), 5.0, 6, bp.probe(nonfinite=True)).findings[0]
    assert first.name == "loss#3"
    assert (first.kind, first.name) == ("born", "loss#3")
    golden("nonfinite", first)
    assert len(first.facts[-1].split(",")) == 1 + 3
    assert first.remedy == REMEDY


def test_a_block_around_a_model_that_diverges():
    model = net()
    report = train(model, 5.0, 6, bp.probe(model, nonfinite=True))
    assert any("the training diverges" in fact for fact in report.findings[0].facts)


def test_the_remedy_cures():
    assert train(net(), 0.01, 6, bp.probe(nonfinite=True)).ok
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    x, y = torch.randn(64, 3) * 3, torch.randn(64, 1)
    with bp.probe(nonfinite=True) as rec:
        for _ in range(12):
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    assert bp.explain(rec).ok


@pytest.mark.parametrize("before", [[1.0], [1e9, 1.0, 1e12], [1.0, 2.0, 3.0], [0.0, 1e9, 1e12]])
def test_a_loss_that_did_not_grow_step_by_step_is_not_said_to_diverge(before):
    """One step before, one that wavers, one that hardly grows, one that began at 0."""
    w = torch.ones(2, requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        for factor in [*before, 3e38]:
            loss = (w * factor).sum()
            loss.backward()
    (first, *_) = bp.explain(rec).findings
    assert "overflow" in first.headline
    assert not any("diverges" in fact for fact in first.facts)


def test_a_loss_that_grows_after_the_birth_is_no_reason_for_it():
    w = torch.ones(2, requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        first = (w * 3e38).sum()
        first.backward()
        for factor in [1.0, 1e4, 1e9]:
            loss = (w * factor).sum()
            loss.backward()
    (birth, *_) = bp.explain(rec).findings
    assert birth.name == "first" and "overflow" in birth.headline
    assert not any("diverges" in fact for fact in birth.facts)


def test_an_infinite_derivative_in_a_training_that_diverges_has_its_own_reason():
    w = torch.ones(2, requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        for factor in (1.0, 1e4, 1e9):
            loss = (w * factor).sum()
            loss.backward()
        loss = torch.log(w - 1).sum()
        loss.backward()
    (first, *_) = bp.explain(rec).findings
    assert "log(0)" in first.headline
    assert not any("diverges" in fact for fact in first.facts)


def test_the_call_of_an_object_is_what_its_function_returned():
    class Scaled(nn.Module):
        def forward(self, x):
            h = x * 1e30
            return h

    model, x, y = Scaled(), torch.ones(3, requires_grad=True), torch.ones(3)
    with bp.probe(nonfinite=True) as rec:
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
    (first, *_) = bp.explain(rec).findings
    assert (first.kind, first.name) == ("born", "loss")
    golden("nonfinite", first)
    assert not any(fact.startswith("'x'") for fact in first.facts)


def test_two_objects_of_one_line_are_not_told_apart():
    class Scaled(nn.Module):
        def forward(self, x):
            h = x * 1e30
            return h

    class Other(nn.Module):
        def forward(self, x):
            h = x * 2
            return h

    one, other, x = Scaled(), Other(), torch.ones(3, requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        loss = ((one(x) - other(x)) ** 2).mean()
        loss.backward()
    (first, *_) = bp.explain(rec).findings
    assert first.headline.startswith("Inf is born at 'loss'")
    assert not any("gives Inf" in fact for fact in first.facts)


@pytest.mark.parametrize(
    "line",
    [
        "F.mse_loss(x, 0 * x)",
        "F.smooth_l1_loss(x * 1e19, -x * 1e19, reduction='sum')",
        "torch.cdist(x[None], -x[None] * 1e20)",
        "torch.addcmul(x, x, x)",
    ],
)
def test_operations_without_a_pole_that_leave_the_range(line, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"beyond_{abs(hash(line))}"
    (tmp_path / f"{name}.py").write_text(
        f"import torch\nimport torch.nn.functional as F\n\ndef f(x):\n    made = {line}\n    return made.sum()\n"
    )
    module = __import__(name)
    rec = bp.probe(module.f, nonfinite=True)(torch.full((3,), 3e19, requires_grad=True))
    (first, *_) = bp.explain(rec).findings
    assert "overflow: float32 ends at 3.40e38" in "\n".join([first.headline, *first.facts])
