"""Healthy trainings: explain and health find nothing, guard raises nothing, and the weights are the same."""

import textwrap

import pytest
import torch
from torch import nn

import backprobe as bp
from asked import kinds, well
from commands import invoked
from remedied import defined
from trainings.torch._texts import HEAD, TRAININGS

FORMS = {
    "a block": "with bp.probe() as rec:",
    "a block around the model": "with bp.probe(model) as rec:",
    "every local of the model": "with bp.probe(model, ['**', '**:*']) as rec:",
    "a guard": "with bp.guard(model):",
}


def ran(case, folder, form="if True:"):
    made, step = TRAININGS[case]
    loop = f"{form}\n    for _ in range(2):\n{textwrap.indent(step.strip(), ' ' * 8)}\n"
    return defined(f"import backprobe as bp\n{HEAD}{made}\n{loop}", folder)


def tensors(program):
    """Those of a program's models, and its variables."""
    held = vars(program).items()
    models = [(name, one.state_dict()) for name, one in held if isinstance(one, nn.Module)]
    found = {f"{name}.{path}": tensor for name, state in models for path, tensor in state.items()}
    return found | {name: one for name, one in held if isinstance(one, torch.Tensor)}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", TRAININGS)
def test_nothing_is_found_and_nothing_is_changed(case, form, tmp_path):
    bare, probed = ran(case, tmp_path), ran(case, tmp_path, FORMS[form])
    if form != "a guard":
        well(bp.explain(probed.rec))
        well(bp.health(probed.rec))
    own, others = tensors(bare), tensors(probed)
    assert own.keys() == others.keys()
    assert [name for name in own if not torch.equal(own[name].nan_to_num(), others[name].nan_to_num())] == []


@pytest.mark.parametrize("case", TRAININGS)
def test_the_script_ends_with_0(case, tmp_path, monkeypatch):
    made, step = TRAININGS[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(f"{HEAD}{made}\nfor _ in range(2):\n{textwrap.indent(step.strip(), ' ' * 4)}\n")
    status, out, err = invoked("explain", "train.py")
    assert (status, err) == (0, ""), out


def test_a_penalty_whose_derivative_has_no_history_is_found_where_all_parameters_are_trained():
    """As in an adversarial example, a derivative is taken without a history: here that loses the penalty."""
    torch.manual_seed(0)
    critic = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(critic.parameters(), 1e-3)
    real, fake = torch.randn(8, 4), torch.randn(8, 4)
    with bp.probe() as rec:
        mixed = (0.5 * real + 0.5 * fake).requires_grad_(True)
        out = critic(mixed)
        (slope,) = torch.autograd.grad(out.sum(), mixed)
        penalty = ((slope.norm(dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        loss.backward()
        optimizer.step()
    assert kinds(bp.explain(rec)) == ["derivative"]
