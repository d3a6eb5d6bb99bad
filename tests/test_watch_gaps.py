"""Steps and names without rows: each is a gap that says why."""

import threading

import pytest
import torch
from torch import nn

import backprobe as bp
from watched import Net, batches, sgd, trained


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Net()


def found(folder):
    with bp.open_run(folder) as run:
        gaps = run.gaps.findings
        return {(name, gap.kind, gap.kinds, gap.steps) for gap in gaps for name in gap.names or ("",)}


def stepped(run, model, *data):
    for x in data:
        model(x).square().mean().backward()
        run.step()
        model.zero_grad()


def test_a_healthy_training_has_none(model, tmp_path):
    optimizer = sgd(model)
    with bp.watch(
        model, tmp_path, optimizer=optimizer, what=("value", "grad", "param", "update"), clipping=True, every=2
    ) as run:
        trained(model, optimizer, batches(7), run.log)
    with bp.open_run(tmp_path) as run:
        assert str(run.gaps) == "no gaps: 7 steps were looked at"
        assert run.gaps.ok


class Branching(nn.Module):
    """Modules that are called now and then, or in a way that gives no rows."""

    def __init__(self):
        super().__init__()
        self.always, self.rare, self.never = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)
        self.direct, self.detached = nn.Linear(3, 3), nn.Linear(3, 3)
        self.parts = nn.ModuleList([nn.Tanh()])
        self.calls = 0

    def forward(self, x):
        x = self.parts[0](self.always(x))
        if self.calls % 2:
            x = self.rare(x)
        self.calls += 1
        with torch.no_grad():
            self.rare(x)
        return self.direct.forward(x) + self.detached(x).detach()


def test_names_without_rows_say_why(tmp_path):
    torch.manual_seed(0)
    model = Branching()
    with bp.watch(model, tmp_path) as run:
        stepped(run, model, *batches(4))
    both = ("value", "grad")
    assert found(tmp_path) == {
        ("rare", "no_grad", both, (0, 2)),
        ("never", "not_called", both, (0, 1, 2, 3)),
        ("direct", "unheard", both, (0, 1, 2, 3)),
        ("detached", "no_gradient", ("grad",), (0, 1, 2, 3)),
    }
    with bp.open_run(tmp_path) as run:
        assert str(run.gaps.of_kind("no_grad")[0]) == (
            "'rare' has no value, grad in steps 0 to 2 (2): it was called without recording gradients only, as under"
            " torch.no_grad()\n  seen:  in the same steps there is no gradient of 'rare.weight', 'rare.bias'"
        )
        assert "never" not in run.names
        lost = {gap.name: gap.lost for gap in run.gaps.findings}
        assert lost.pop("direct") == ()
        assert lost == {name: (f"{name}.weight", f"{name}.bias") for name in ("rare", "never", "detached")}


class Deep(nn.Module):
    """A model of many parameters, one half of which a flag leaves out."""

    def __init__(self):
        super().__init__()
        self.used = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        self.blocks = nn.ModuleList([nn.ModuleDict({part: nn.Linear(3, 3) for part in "qkvo"}) for _ in range(3)])
        self.bare = nn.ParameterList([nn.Parameter(torch.ones(3)) for _ in range(6)])

    def forward(self, x):
        for layer in self.used:
            x = layer(x)
        return x


def test_gaps_of_one_reason_are_one_folded_by_path(tmp_path):
    model = Deep()
    with bp.watch(model, tmp_path) as run:
        stepped(run, model, *batches(2))
    with bp.open_run(tmp_path) as run:
        assert [str(gap) for gap in run.gaps.findings] == [
            "'blocks.{0..2}.{q,k,v,o}' have no value, grad in steps 0 to 1 (2): no call of it was seen\n"
            "  seen:  in the same steps there is no gradient of 'blocks.{0..2}.{q,k,v,o}.{weight,bias}'",
            "'bare.{0..5}' have no grad in steps 0 to 1 (2): its .grad was None as the optimizer stepped, or at "
            "run.step()",
        ]
        assert len(run.gaps.findings[0].names) == 12
        assert len(run.gaps.findings[0].lost) == 24


def test_a_parameter_without_a_gradient_in_other_steps_is_a_gap_of_its_own(tmp_path):
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.part, self.always, self.calls = nn.Linear(3, 3), nn.Linear(3, 3), 0

        def forward(self, x):
            self.calls += 1
            x = self.always(x)
            return self.part(x) if self.calls == 1 else x if self.calls == 2 else x @ self.part.weight

    model = Half()
    with bp.watch(model, tmp_path) as run:
        stepped(run, model, *batches(3))
    assert found(tmp_path) == {
        ("part", "not_called", ("value", "grad"), (1,)),
        ("part", "unheard", ("value", "grad"), (2,)),
        ("part.bias", "empty_gradient", ("grad",), (1, 2)),
    }
    with bp.open_run(tmp_path) as run:
        assert [gap.lost for gap in run.gaps.findings if gap.kind == "not_called"] == [("part.weight",)]


def test_what_is_not_selected_is_no_gap(tmp_path):
    model = Branching()
    with bp.watch(model, tmp_path, select="always*") as run:
        stepped(run, model, *batches(2))
    assert found(tmp_path) == set()


def test_a_module_that_runs_in_another_thread(model, tmp_path):
    def elsewhere(x):
        made = []
        thread = threading.Thread(target=lambda: made.append(model.head(x)))
        thread.start()
        thread.join()
        return made[0]

    with bp.watch(model, tmp_path, select=["embed", "head"]) as run:
        elsewhere(model.embed(batches(1)[0])).sum().backward()
        run.step()
    assert ("head", "other_thread", ("value", "grad"), (0,)) in found(tmp_path)


def test_a_step_without_a_backward_and_one_that_a_scaler_skips(model, tmp_path):
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    with bp.watch(model, tmp_path, optimizer=optimizer, scaler=scaler):
        for at, x in enumerate(batches(3)):
            loss = model(x).square().mean() * (float("inf") if at == 1 else 1.0)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    assert found(tmp_path) == {("", "skipped", (), (1,))}
    with bp.watch(model, tmp_path / "by hand") as run:
        model(batches(1)[0])
        run.step()
        stepped(run, model, *batches(1))
    assert found(tmp_path / "by hand") == {("", "no_backward", (), (0,))}


def test_steps_that_a_restart_leaves_out(model, tmp_path):
    for start in (0, 6):
        with bp.watch(model, tmp_path, start_step=start) as run:
            stepped(run, model, *batches(3))
    assert found(tmp_path) == {("", "not_written", (), (3, 4, 5))}


def test_a_run_that_was_not_closed(model, tmp_path):
    with bp.watch(model, tmp_path) as run:
        stepped(run, model, *batches(3))
        run.flush()
        assert found(tmp_path) == {("", "cut_short", (), (3,))}
    assert found(tmp_path) == set()


def test_an_optimizer_that_steps_seldom(model, tmp_path):
    often, seldom = torch.optim.SGD(model.head.parameters(), lr=0.1), torch.optim.SGD(model.embed.parameters(), lr=0.1)
    with bp.watch(model, tmp_path, optimizer=[seldom, often], select=["embed.weight", "head.weight"]):
        for at, x in enumerate(batches(4)):
            model(x).square().mean().backward()
            if at % 2:
                seldom.step()
            often.step()
            model.zero_grad()
    assert found(tmp_path) == {
        ("embed.weight", "not_stepped", ("grad",), (0,)),  # that it has a param too is known from the next step on
        ("embed.weight", "not_stepped", ("grad", "param"), (2,)),
    }


# a model that changes between steps


def test_a_layer_that_is_swapped(model, tmp_path):
    """Its values go on under its name; its parameters are not those of the layer that it was."""
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer):
        trained(model, optimizer, batches(2))
        model.head = nn.Linear(4, 1)
        trained(model, optimizer, batches(2))
    assert found(tmp_path) == {
        (f"head.{one}", "not_optimized", ("grad", "param"), (2, 3)) for one in ("weight", "bias")
    }
    with bp.open_run(tmp_path) as run:
        assert run.series("head", "grad.count")[0].tolist() == [0, 1, 2, 3]
        assert run.series("head.weight", "param.rms")[0].tolist() == [0, 1]


def test_a_layer_that_is_added_and_one_that_is_removed(model, tmp_path):
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer):
        trained(model, optimizer, batches(2))
        model.body.append(nn.Linear(4, 4))
        del model.body[1]
        optimizer.add_param_group({"params": model.body[2].parameters()})
        trained(model, optimizer, batches(2))
    gaps = found(tmp_path)
    assert (
        "body.2",
        "removed",
        ("value", "grad"),
        (2, 3),
    ) not in gaps  # the dropout moved to body.1, the new layer came
    with bp.open_run(tmp_path) as run:
        assert run.series("body.2.weight", "grad.rms")[0].tolist() == [2, 3]
        assert run.series("body.0", "grad.rms")[0].tolist() == [0, 1, 2, 3]


def test_a_layer_that_is_gone(model, tmp_path):
    with bp.watch(model, tmp_path, select=["body.*", "head"]) as run:
        stepped(run, model, *batches(1))
        model.body = nn.Sequential(model.body[0], model.body[1])
        stepped(run, model, *batches(1))
    assert found(tmp_path) == {("body.2", "removed", ("value", "grad"), (1,))}


def test_a_gap_ends(model, tmp_path):
    """What a run says of a step holds until it says something else, in memory and after many steps."""
    model = Branching()
    with bp.watch(model, tmp_path, select="rare", pace=bp.Pace(flush=0)) as run:
        stepped(run, model, *batches(9))
    assert found(tmp_path) == {("rare", "no_grad", ("value", "grad"), (0, 2, 4, 6, 8))}


def test_no_row_at_a_step_says_why(tmp_path):
    model = Branching()
    with bp.watch(model, tmp_path, select=["rare", "always"]) as run:
        stepped(run, model, *batches(2))
    with bp.open_run(tmp_path) as run, pytest.raises(bp.UnknownName) as caught:
        run.at(0)["rare"]
    assert "why:   it was called without recording gradients only, as under torch.no_grad()" in str(caught.value)
