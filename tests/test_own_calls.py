"""Modules whose class has a ``__call__`` of its own, which runs no hooks: they are heard as all others are."""

import pytest
import torch
from torch import nn

import backprobe as bp


class Direct(nn.Module):
    """As in libraries whose modules check what their forward returns."""

    def __call__(self, *args, **kwargs):
        return self.forward(*args, **kwargs)


class Checking(nn.Module):
    def __call__(self, *inputs, scale=1.0):
        found = self.forward(*inputs)
        return [one * scale for one in found] if isinstance(found, list) else found * scale


class Passing(nn.Module):
    """It runs the hooks, as all do."""

    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)


def scaled(base):
    class Scale(base):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.tensor(2.0))

        def forward(self, x):
            y = x * self.w
            return y

    return Scale


class Net(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        return self.part(x).square().sum()


BASES = [Direct, Checking, Passing]
X = torch.tensor([1.0, 3.0])


@pytest.fixture(params=BASES, ids=lambda base: base.__name__)
def net(request):
    return Net(scaled(request.param)())


def test_a_block_hears_them(net):
    before = {base: base.__call__ for base in BASES}
    with bp.probe(net) as rec:
        net(X).backward()
    assert str(rec["part"].status) == "ok"
    assert rec["part"].value.tolist() == [2.0, 6.0]
    assert rec["part"].grad.tolist() == [4.0, 12.0]
    assert "never computed" not in str(bp.explain(rec))
    assert [name for name in rec if name.startswith("part")] == ["part.w", "part"]
    assert before == {base: base.__call__ for base in BASES}


def test_the_model_form_hears_them(net):
    rec = bp.probe(net)(X)
    assert rec["part"].grad.tolist() == [4.0, 12.0]


def test_locals_are_heard_with_them(net):
    with bp.probe(net, ["part", "part:y"]) as rec:
        net(X).backward()
    assert rec["part"].grad.tolist() == rec["part:y"].grad.tolist() == [4.0, 12.0]


def test_the_program_s_own_hooks_run_as_before(net):
    seen = []
    net.part.register_forward_hook(lambda module, args, output: seen.append(output))
    net(X)
    bare, seen[:] = len(seen), []
    with bp.probe(net) as rec:
        net(X).backward()
    assert len(seen) == bare == (1 if isinstance(net.part, Passing) else 0)
    assert rec["part"].grad.tolist() == [4.0, 12.0]


def test_a_watch_has_rows_of_them(net, tmp_path):
    twin = Net(type(net.part)())
    with bp.watch(net, tmp_path) as run:
        for model in (net, twin, net):  # what another model's modules do is not this one's
            model(X).backward()
            if model is net:
                run.step()
    with bp.open_run(tmp_path) as run:
        assert str(run.gaps) == "no gaps: 2 steps were looked at"
        assert run.at(1)["part"]["value.max"] == 6.0
        assert run.at(1)["part"]["value.count"] == run.at(1)["part"]["grad.count"] == 2
        assert run.at(1)["part"]["grad.max"] == 12.0


def test_a_watch_that_measures_each_second_step(net, tmp_path):
    with bp.watch(net, tmp_path, every=2) as run:
        for _ in range(4):
            net(X).backward()
            run.step()
    with bp.open_run(tmp_path) as run:
        steps, counts = run.series("part", "value.count")
        assert (steps.tolist(), counts.tolist()) == ([0, 2], [2, 2])


def rooted(base):
    class Root(base):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 1, bias=False)

        def forward(self, x):
            total = self.layer(x).square().sum()
            return total.sqrt()

    return Root()


@pytest.mark.parametrize("base", BASES)
def test_a_guard_hears_a_model_of_them(base):
    model = rooted(base)
    with pytest.raises(bp.NotFinite) as raised, bp.guard(model):
        model(torch.ones(2)).backward()
        model(torch.zeros(2)).backward()
    assert "the derivative of sqrt is infinite at 0" in str(raised.value)


def test_a_call_that_raises_is_raised_and_the_next_is_heard():
    class Failing(Direct):
        def forward(self, x):
            if x.sum() < 0:
                raise ValueError("of the program")
            return x * 2

    net = Net(Failing())
    x = X.clone().requires_grad_()
    with bp.probe(net) as rec:
        with pytest.raises(ValueError, match="of the program"):
            net(-x)
        net(x).backward()
    assert rec["part"].value.tolist() == [2.0, 6.0]


def test_what_never_ran_is_still_said(net):
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = net.part, type(net.part)()

        def forward(self, x):
            return self.used(x).sum()

    half = Half()
    with bp.probe(half) as rec:
        half(X).backward()
    assert str(rec["used"].status) == "ok"
    assert (str(rec["idle"].status), rec["idle"].reason) == ("not_executed", "no call of it was seen")


def test_several_results_and_a_result_that_is_changed_by_the_call():
    class Several(Checking):
        def forward(self, x):
            return [x * 2, x * 3]

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Several()

        def forward(self, x):
            a, b = self.part(x, scale=10.0)
            return (a + b).sum()

    whole, x = Whole(), X.clone().requires_grad_()
    with bp.probe(whole) as rec:
        whole(x).backward()
    assert rec["part:return.0"].value.tolist() == [20.0, 60.0]
    assert rec["part:return.1"].grad.tolist() == [1.0, 1.0]
