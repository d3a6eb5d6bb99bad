"""Which calls and numbers of a watched training are counted, and what becomes of them on disk."""

import contextlib
import copy
import threading
import warnings

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint
from watch_long import files, objects, train

import backprobe as bp
from asked import message
from watched import Net, batches, disk_full, sgd, trained


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Net()


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_a_checkpoint_computes_again_is_counted_once(tmp_path, reentrant):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 4), nn.Tanh())

        def forward(self, x):
            return checkpoint(self.b, self.a(x), use_reentrant=reentrant)

    torch.manual_seed(0)
    model = Checkpointed()
    (x,) = batches(1)
    with bp.watch(model, tmp_path) as run:
        model(x).sum().backward()
        run.step()
    with bp.open_run(tmp_path) as run:
        found = run.at(0)
        assert found.backwards == 1
        for name in ("a", "b.0", "b.1", "b"):
            assert (found[name]["value.count"], found[name]["grad.count"]) == (20, 20), name


def test_an_evaluation_is_not_counted(model, tmp_path):
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer):
        for x in batches(2):
            trained(model, optimizer, [x])
            with torch.no_grad():
                model(x)
            with torch.inference_mode():
                model(x)
    with bp.open_run(tmp_path) as run:
        assert run.series("embed", "value.count")[1].tolist() == [20, 20]


def test_a_gradient_penalty_s_own_pass_is_not_counted(model, tmp_path):
    (x,) = batches(1)
    x.requires_grad_()
    with bp.watch(model, tmp_path) as run:
        out = model(x)
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        (out.mean() + slope.square().mean()).backward()
        run.step()
    with bp.open_run(tmp_path) as run:
        assert run.at(0)["head"]["grad.count"] == 5
        assert run.at(0).backwards == 1


def test_modules_and_parameters_that_are_shared_have_one_row_and_both_names(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3)
            self.b = self.a
            self.c = nn.Linear(3, 3)
            self.c.weight = self.a.weight

        def forward(self, x):
            return self.c(self.b(self.a(x)))

    torch.manual_seed(0)
    model = Tied()
    with bp.watch(model, tmp_path) as run:
        model(batches(1)[0]).sum().backward()
        run.step()
    with bp.open_run(tmp_path) as run:
        assert run.names == ["a", "c", "return", "a.weight", "a.bias", "c.bias"]
        assert run.at(0)["a"]["value.count"] == run.at(0)["b"]["value.count"] == 30
        assert run.series("c.weight", "grad.rms")[1] == run.series("a.weight", "grad.rms")[1]


@pytest.mark.parametrize("select", ["b", "b:return", ["b", "c"], "b.*"])
def test_a_shared_module_is_selected_by_any_of_its_names(tmp_path, select):
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Sequential(nn.Linear(3, 3))
            self.b = self.a
            self.c = nn.Linear(3, 3)

        def forward(self, x):
            return self.c(self.b(self.a(x)))

    model, name = Shared(), "b.0" if select == "b.*" else "b"
    with bp.watch(model, tmp_path, select=select) as run:
        for x in batches(2):
            model(x).sum().backward()
            run.step()
    with bp.open_run(tmp_path) as run:
        assert [run.at(step)[name]["grad.count"] for step in (0, 1)] == [30, 30]
        assert not run.gaps.findings


class Pair(nn.Module):
    def forward(self, x):
        return x * 2, x * 3


class Paired(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.a = Pair()
        self.b = self.a

    def forward(self, x):
        (u, v), (w, z) = self.a(self.layer(x)), self.b(x)
        return u + v + w + z


@pytest.mark.parametrize("select", [["a:return.0", "b:return.1"], ["b:return.1", "a:return.0"]])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_shared_module_s_parts_are_selected_by_either_name(tmp_path, select, is_compiled):
    torch.compiler.reset()
    model = Paired()
    called = torch.compile(model, backend="aot_eager", fullgraph=True) if is_compiled else model
    with bp.watch(called, tmp_path, select=select) as run:
        for x in batches(2):
            called(x).sum().backward()
            run.step()
    with bp.open_run(tmp_path) as run:
        assert sorted(run.names) == ["a:return.0", "b:return.1"]
        assert all(run.at(1)[name]["value.count"] == 30 for name in select)
        assert not run.gaps.findings


def test_containers_and_recurrent_modules(tmp_path):
    torch.manual_seed(0)
    model = nn.LSTM(3, 4)
    with bp.watch(model, tmp_path, select=["**", "!*_l0"]) as run:
        model(batches(1))[0].sum().backward()
        run.step()
    with bp.open_run(tmp_path) as run:
        assert run.names == ["return.0", "return.1.0", "return.1.1"]
        assert run.at(0)["return.0"]["grad.sum"] == 20
        assert "grad.sum" not in run.at(0)["return.1.1"]
        assert "returns several tensors" in message(bp.AmbiguousName, lambda: run.series("return", "value.rms"))


def test_a_module_that_is_put_in_later_is_watched(model, tmp_path):
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer):
        trained(model, optimizer, batches(1))
        model.body.append(nn.Linear(4, 4))
        trained(model, optimizer, batches(2))
    with bp.open_run(tmp_path) as run:
        assert run.series("body.3", "grad.count")[0].tolist() == [1, 2]
        assert run.series("body.0", "grad.count")[0].tolist() == [0, 1, 2]


def of_transform(model, x):
    parameters = dict(model.named_parameters())
    torch.func.grad(lambda p: torch.func.functional_call(model, p, x).sum())(parameters)


def fake(model, x):
    with FakeTensorMode(allow_non_fake_inputs=True):
        model(x)


def traced(model, x):
    with warnings.catch_warnings():  # that it is deprecated
        warnings.simplefilter("ignore")
        torch.jit.trace(model, x)


WITHOUT_NUMBERS = {
    "torch.func.grad": of_transform,
    "vmap": lambda model, x: torch.vmap(model)(x),
    "FakeTensorMode": fake,
    "jit.trace": traced,
    "export": lambda model, x: torch.export.export(model, (x,)),
    "meta": lambda model, x: copy.deepcopy(model).to("meta")(x.to("meta")),
}


@pytest.mark.parametrize("run_without", WITHOUT_NUMBERS.values(), ids=WITHOUT_NUMBERS.keys())
def test_calls_whose_tensors_have_no_numbers_are_not_counted(model, tmp_path, run_without):
    (x,) = batches(1)
    model.body[1] = nn.ReLU()
    with bp.watch(model, tmp_path) as run:
        run_without(model, x)
        model(x).sum().backward()
        run.step()
    with bp.open_run(tmp_path) as run:
        assert (run.at(0)["embed"]["value.count"], run.at(0)["embed"]["grad.count"]) == (20, 20)
        assert run.at(0).backwards == 1


def test_nested_tensors_are_measured(tmp_path):
    rows = [torch.ones(2, 3), torch.ones(4, 3)]
    model = nn.Sequential(nn.Linear(3, 3))
    with warnings.catch_warnings(), bp.watch(model, tmp_path) as run:
        warnings.simplefilter("ignore")  # that they are new
        model(torch.nested.nested_tensor(rows, layout=torch.jagged)).values().sum().backward()
        torch.nested.to_padded_tensor(model(torch.nested.nested_tensor(rows)), 0.0).sum().backward()
        run.step()
    with bp.open_run(tmp_path) as run:
        assert (run.at(0)["0"]["value.count"], run.at(0)["0"]["grad.sum"]) == (36, 36)


def test_nan_and_infinities_are_told_apart_and_the_rest_is_measured(tmp_path):
    class Bad(nn.Module):
        def forward(self, x):
            return x * torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), 0.0])

    model, x = nn.Sequential(Bad()), torch.ones(2, 5, requires_grad=True)
    with bp.watch(model, tmp_path) as run:
        model(x).sum().backward()
        run.step()
    with bp.open_run(tmp_path) as run:
        found = run.at(0)["0"]
        counts = [found[f"value.{one}"] for one in ("count", "finite", "nan", "posinf", "neginf", "zeros")]
        assert counts == [10, 4, 2, 2, 2, 2]
        assert (found["value.mean"], found["value.absmax"], found["grad.mean"]) == (0.5, 1, 1)


def test_selected_names_alone(model, tmp_path):
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, select=["body.*", "!body.2", "head.weight"], optimizer=optimizer):
        trained(model, optimizer, batches(1))
    with bp.open_run(tmp_path) as run:
        assert run.names == ["body.0", "body.1", "head.weight"]
        assert run.at(0).backwards == 1


def test_bfloat16_and_a_restart(tmp_path):
    torch.manual_seed(0)
    model = Net().bfloat16()
    optimizer = sgd(model)
    for _ in range(2):
        with bp.watch(model, tmp_path, optimizer=optimizer):
            trained(model, optimizer, batches(2).bfloat16())
    with bp.watch(model, tmp_path, optimizer=optimizer, start_step=3):
        trained(model, optimizer, batches(2).bfloat16())
    with bp.open_run(tmp_path) as run:
        assert run.steps.tolist() == [0, 1, 2, 3, 4]
        assert [run.at(step).attempt for step in range(5)] == [0, 0, 1, 2, 2]
        assert len(run.attempts) == 3


def test_updates_of_a_narrow_dtype_are_subtracted_in_float32(tmp_path):
    """From almost 0 a weight goes to 1: in bfloat16 the difference of the two would be 0.99609375."""
    begin, model = 2**-9 * (1 + 2**-7), torch.nn.Linear(1, 1, bias=False).bfloat16()
    torch.nn.init.constant_(model.weight, begin)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with bp.watch(model, tmp_path, optimizer=optimizer, what=("param", "update")):
        (-model(torch.ones(1, 1, dtype=torch.bfloat16))).sum().backward()
        optimizer.step()
    assert model.weight.item() == 1.0
    with bp.open_run(tmp_path) as run:
        assert run.at(0)["weight"]["update.max"] == 1 - begin


def magnitudes(tensor):
    bins = torch.frexp(tensor.detach().abs()[tensor.detach() != 0])[1] - 1
    return {int(one): int((bins == one).sum()) for one in bins.unique()}


@pytest.mark.parametrize("scale", [1.0, 2.0**10])
def test_magnitudes_are_counted_at_every_other_step(model, tmp_path, scale):
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale) if scale != 1 else None
    expected = []
    with bp.watch(model, tmp_path, optimizer=optimizer, scaler=scaler, pace=bp.Pace(histogram=2)):
        for x in batches(3):
            out = []
            handle = model.head.register_forward_hook(lambda part, args, result, out=out: out.append(result))
            loss = model(x).square().mean()
            out[0].retain_grad()
            (loss * scale if scaler is None else scaler.scale(loss)).backward()
            expected.append((magnitudes(out[0].grad / scale), magnitudes(out[0])))
            (optimizer.step if scaler is None else lambda: (scaler.step(optimizer), scaler.update()))()
            optimizer.zero_grad()
            handle.remove()
    with bp.open_run(tmp_path) as run:
        for kind, at in (("grad", 0), ("value", 1)):
            found = run.histogram("head", kind)
            assert found.steps.tolist() == [0, 2]
            for row, step in zip(found.counts, (0, 2), strict=True):
                held = {int(e): int(count) for e, count in zip(found.exponents, row, strict=True) if count}
                assert held == expected[step][at], kind
        zeros = [run.at(step)["head.weight"]["grad.zeros"] for step in (0, 2)]
        assert run.histogram("head.weight").counts.sum(1).tolist() == [4 - zero for zero in zeros]
        assert repr(found).startswith("<backprobe.Histogram: 2 steps, exponents -")
        assert "no kind 'gard'" in message(bp.BadOption, lambda: run.histogram("head", "gard"))


def test_what_is_flushed_is_read_at_once(model, tmp_path):
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer) as run:
        for number, x in enumerate(batches(3)):
            trained(model, optimizer, [x], run.log)
            run.flush()
            assert run.acknowledged == number
            with bp.open_run(tmp_path) as opened:
                assert opened.steps.tolist() == list(range(number + 1))
                assert "loss" in opened.at(number)


def test_a_full_disk_ends_the_watching_and_not_the_training(model, tmp_path):
    twin = copy.deepcopy(model)
    trained(twin, sgd(twin), batches(6))
    optimizer = sgd(model)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with bp.watch(model, tmp_path, optimizer=optimizer) as run:
            trained(model, optimizer, batches(6)[:2])
            disk_full(run)
            trained(model, optimizer, batches(6)[2:4])
            run.flush()
            trained(model, optimizer, batches(6)[4:])
    (warning,) = caught
    assert str(warning.message) == (
        f"bp.watch has stopped: {tmp_path} can no longer be written (database or disk is full). Steps up to 1 are on "
        "disk. The training goes on."
    )
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))
    with bp.open_run(tmp_path) as run:
        assert run.steps.tolist() == [0, 1]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("is_failing", [False, True])
def test_a_full_disk_raises_nothing_where_warnings_are_errors(model, tmp_path, capsys, is_failing):
    optimizer, ended = sgd(model), KeyError("of the training")
    with contextlib.suppress(KeyError), bp.watch(model, tmp_path, optimizer=optimizer) as run:
        trained(model, optimizer, batches(2))
        disk_full(run)
        trained(model, optimizer, batches(2))
        if is_failing:
            raise ended
        run.flush()
        trained(model, optimizer, batches(2))
    assert is_failing == (ended.__traceback__ is not None)
    said = capsys.readouterr().err
    assert said.startswith("RuntimeWarning: bp.watch has stopped: ") and said.count("RuntimeWarning") == 1


class Distance(nn.Module):
    """Of the rows of a batch of two; its derivative is infinite where they are the same."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 1)

    def forward(self, x):
        return (self.layer(x) - self.layer(x).flip(0)).square().sum(1).sqrt()


def test_the_first_nan_stops_a_guarded_training_and_its_step_is_in_the_run(tmp_path):
    torch.manual_seed(0)
    model = Distance()
    optimizer, (first, second) = sgd(model), batches(2, 2)
    with pytest.raises(bp.NotFinite, match="the derivative of sqrt is infinite at 0"):
        with bp.watch(model, tmp_path, optimizer=optimizer, guard=True):
            trained(model, optimizer, [first, second, torch.ones(2, 3), first])
    with bp.open_run(tmp_path) as run:
        assert run.steps.tolist() == [0, 1, 2]
        assert run.at(2)["layer"]["grad.nan"] == 4
        assert run.at(2)["layer"]["value.count"] == run.at(1)["layer"]["value.count"] == 4  # the call made again is not
        assert run.attempts[0]["guard"] is True
    assert not torch.nn.modules.module._global_forward_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks


@pytest.mark.sweep
def test_a_long_training_holds_no_more_than_a_short_one(tmp_path):
    """What is in memory of a run are the steps that are not yet put together: as many at both looks."""
    held = []
    train(tmp_path, [1030, 2054], lambda step: held.append((objects(), threading.active_count(), files())))
    (objects_before, *before), (objects_after, *after) = held
    assert after == before
    assert objects_after - objects_before < 100  # of a thousand steps


def graded(model, x, outputs):
    """A step whose gradients ``autograd.grad`` takes: of one loss, part by part, or of two."""
    parameters, out = list(model.parameters()), model(x)
    first, second = out.square().mean(), out.abs().mean()
    for loss, own in {
        "one": [(first, parameters)],
        "parts": [(first, parameters[:1]), (first, parameters[1:])],
        "two": [(first, parameters), (second, parameters)],
    }[outputs]:
        torch.autograd.grad(loss, own, retain_graph=True)
    return first


@pytest.mark.parametrize("outputs", ["one", "parts", "two"])
def test_a_step_without_backward_has_the_gradients_that_grad_takes_of_one_output(model, tmp_path, outputs):
    (x,) = batches(1)
    with bp.watch(model, tmp_path / "grad") as run:
        graded(model, x, outputs)
        run.step()
    with bp.watch(model, tmp_path / "backward") as run:
        graded(model, x, outputs).backward()
        run.step()
    with bp.open_run(tmp_path / "grad") as run, bp.open_run(tmp_path / "backward") as other:
        assert other.at(0).backwards == 1 and other.at(0)["head"]["grad.count"] == 5
        assert run.at(0).backwards == (outputs != "two")
        if outputs == "two":
            assert "grad.rms" not in run.at(0)["head"]
        else:
            assert run.at(0)["head"]["grad.rms"] == other.at(0)["head"]["grad.rms"]
            assert run.at(0)["head"]["grad.count"] == 5
