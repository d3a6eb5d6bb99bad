"""Every gradient in real models, against what the loss does when that value alone is moved."""

import pytest
import torch
from torch.autograd.graph import get_gradient_edge

from asked import Parts
from backprobe.backends.torch.gradient_hooks import Arrivals
from backprobe.backends.torch.tape import TorchTape
from perturbation import JUDGED, judge, record
from sampled import sampled
from test_real_models import ZOO, inputs

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
AT_LEAST = {"gpt2": 90, "llama": 55, "bert": 90, "t5": 100, "mixtral": 90, "vit": 85}
ONE_LAYER = {"llama": "num_hidden_layers", "t5": "num_layers", "mixtral": "num_hidden_layers"}  # others have two


@pytest.fixture
def in_double(monkeypatch):
    """Models put some of what they compute into float32 by themselves, where no difference can judge anything."""
    monkeypatch.setattr(torch, "float32", torch.float64)
    monkeypatch.setattr(torch, "float", torch.float64)
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)


def moved_apart(model):
    """The model in double, its weights so far from 0 that no gradient is small; biases too."""
    with torch.no_grad():
        for parameter in model.double().parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def from_zoo(name):
    torch.manual_seed(0)
    model = moved_apart(ZOO[name](**({ONE_LAYER[name]: 1} if name in ONE_LAYER else {})))
    if name == "mixtral":
        model.set_experts_implementation("eager")  # PyTorch has no grouped product of doubles
    return model, {key: held.double() if held.is_floating_point() else held for key, held in inputs(name).items()}


@pytest.mark.parametrize("name", sampled(ZOO, "llama"))
@pytest.mark.usefixtures("in_double")
def test_every_gradient_in_a_real_model_is_what_moving_the_value_does_to_the_loss(name):
    model, arguments = from_zoo(name)
    recording = record(model, arguments)
    verdicts = judge(recording, model, arguments)
    assert [str(verdict) for verdict in verdicts if not verdict.agrees] == []
    assert len(verdicts) == sum(entry.status in JUDGED for entry in recording.values())
    assert len(recording.grads()) >= AT_LEAST[name]


class Written(Parts):
    """Writes in every way: to a tensor, through a view, to the base of one, over a part, by a module."""

    def forward(self, x):
        u = self.linear(x)
        first = (u + 1).sin()
        u *= 2.0
        u.add_(first)
        rows = u[1:]
        early = rows * 3
        rows.mul_(0.7)
        late = rows.exp()
        column = u[:, 0]
        before = column + 2
        u.sub_(early.mean())
        after = column * 5
        part = rows[:, 1:3]
        between = part + 0.5
        part.add_(before[1:, None])
        u.masked_fill_(u > 2, 0.5)
        self.relu(u)
        total = torch.zeros_like(u)
        total.index_add_(0, torch.tensor([0, 2, 2]), u.cos())
        total[0, 1:] = late[0, 1:]
        turned = total.t()
        turned.div_(3)
        mixed = total * total + turned.t()
        return {"loss": mixed.sum() + (after * before).sum() + (between**2).sum() + rows.sum() * u.mean()}


def written():
    torch.manual_seed(0)
    model = moved_apart(Written(linear=torch.nn.Linear(4, 4), relu=torch.nn.ReLU(inplace=True)))
    return model, {"x": torch.randn(3, 4, dtype=torch.float64)}


def test_every_gradient_among_in_place_writes_is_what_moving_the_value_does_to_the_loss():
    model, arguments = written()
    recording = record(model, arguments)
    verdicts = judge(recording, model, arguments)
    assert [str(verdict) for verdict in verdicts if not verdict.agrees] == []
    assert len(verdicts) == sum(entry.status in JUDGED for entry in recording.values())
    assert len(recording.grads()) >= 30


# that the judge can say no


def test_judge_refuses_names_without_versions(monkeypatch):
    monkeypatch.setattr(TorchTape, "version", lambda self, tensor: 0)
    monkeypatch.setattr(TorchTape, "versions", lambda self, tensors: [0] * len(tensors))
    model, arguments = written()
    with pytest.raises(AssertionError, match="these names have another value than their entry: .*:u'"):
        judge(record(model, arguments), model, arguments)


def test_judge_refuses_the_gradient_of_another_version(monkeypatch):
    def at_the_end(self, captures):
        for capture in captures:
            if capture.edge is not None:
                capture.edge, capture.geometry = get_gradient_edge(capture.tensor), None

    monkeypatch.setattr(TorchTape, "settle", at_the_end)
    model, arguments = written()
    refused = {verdict.name for verdict in judge(record(model, arguments), model, arguments) if not verdict.agrees}
    assert {"linear", "u#1"} <= refused


def test_judge_refuses_a_gradient_that_is_wrong_in_the_sixth_digit(monkeypatch):
    right = Arrivals.gradients
    monkeypatch.setattr(
        Arrivals, "gradients", lambda *args: {at: 1.000002 * gradient for at, gradient in right(*args).items()}
    )
    model, arguments = written()
    recording = record(model, arguments)
    agree = [verdict.name for verdict in judge(recording, model, arguments) if verdict.agrees]
    assert set(agree).isdisjoint(recording.grads())
