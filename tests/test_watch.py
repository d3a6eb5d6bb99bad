"""A watched training: what is read is what the training computed, step by step, and the training is the same."""

import copy
import gc

import numpy
import pytest
import torch
from torch import nn

import backprobe as bp
from asked import message
from watched import Net, batches, rms, sgd, trained


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Net()


def by_hand(model, data, optimizer):
    """The rms of each value, gradient, parameter and update, by step and name, by hooks and ``retain_grad``."""
    found = []
    for x in data:
        outputs = {}
        handles = [
            part.register_forward_hook(lambda part, args, out, name=name: outputs.__setitem__(name or "return", out))
            for name, part in model.named_modules()
        ]
        loss = model(x).square().mean()
        for out in outputs.values():
            out.retain_grad()
        values = {name: rms(out) for name, out in outputs.items()}
        loss.backward()
        rows = {name: {"value.rms": values[name], "grad.rms": rms(out.grad)} for name, out in outputs.items()}
        before = {name: one.detach().clone() for name, one in model.named_parameters()}
        rows |= {name: {"grad.rms": rms(one.grad)} for name, one in model.named_parameters()}
        optimizer.step()
        for name, one in model.named_parameters():
            rows[name] |= {"param.rms": rms(one), "update.rms": rms(one - before[name])}
        optimizer.zero_grad()
        for handle in handles:
            handle.remove()
        found.append(rows)
    return found


def test_rows_are_those_that_hooks_by_hand_give(model, tmp_path):
    """Of a model without writes in place, which hooks by hand get wrong."""
    model.body[1] = nn.ReLU()
    twin = copy.deepcopy(model)
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer, what=("value", "grad", "param", "update")):
        trained(model, optimizer, batches())
    expected = by_hand(twin, batches(), sgd(twin))
    with bp.open_run(tmp_path) as run:
        assert run.steps.tolist() == [0, 1, 2, 3]
        for number, rows in enumerate(expected):
            found = run.at(number)
            assert found.backwards == 1
            assert set(rows) == set(found)
            for name, fields in rows.items():
                assert {field: found[name][field] for field in fields} == pytest.approx(fields, rel=1e-5), name


def test_rows_are_those_that_a_probe_gives(model, tmp_path):
    """A write in place included: names and gradients are those of a recording."""
    (x,) = batches(1)
    twin = copy.deepcopy(model)
    with bp.probe(twin) as rec:
        twin(x).square().mean().backward()
    with bp.watch(model, tmp_path) as run:
        model(x).square().mean().backward()
        run.step()
    with bp.open_run(tmp_path) as run:
        found = run.at(0)
        for name in ("embed", "body.0", "body.1", "body", "head", "return"):
            assert found[name]["grad.rms"] == pytest.approx(rms(rec[name].grad), rel=1e-5), name
        for name in ("embed", "body.1", "head.weight"):
            kind = "param" if name == "head.weight" else "value"
            assert found[name][f"{kind}.rms"] == pytest.approx(rms(rec[name].value), rel=1e-5), name


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW], ids=["SGD", "AdamW"])
def test_the_training_is_bitwise_the_same(tmp_path, optimizer):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(8, 1))
    twin = copy.deepcopy(model)
    losses = {}
    for one, watched in ((twin, False), (model, True)):
        torch.manual_seed(5)
        steps = optimizer(one.parameters(), lr=0.1)
        losses[watched] = []
        log = lambda loss, to=losses[watched]: to.append(loss.item())
        if watched:
            with bp.watch(one, tmp_path, optimizer=steps, what=("value", "grad", "param", "update"), clipping=True):
                trained(one, steps, batches(), log)
        else:
            trained(one, steps, batches(), log)
    assert losses[True] == losses[False]
    for a, b in zip(model.state_dict().values(), twin.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def hooks_of(model):
    own = [
        (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, vars(part).keys())
        for part in model.modules()
    ]
    return str(own), str(torch.nn.modules.module._global_forward_hooks)


def test_nothing_is_left_behind_also_after_an_exception(model, tmp_path):
    optimizer, before = sgd(model), hooks_of(model)
    with pytest.raises(ZeroDivisionError), bp.watch(model, tmp_path, optimizer=optimizer):
        trained(model, optimizer, batches(2))
        raise ZeroDivisionError
    assert hooks_of(model) == before
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    with bp.open_run(tmp_path) as run:  # what was before the exception is there
        assert run.steps.tolist() == [0, 1]


def tensors():
    gc.collect()
    return sum(issubclass(type(one), torch.Tensor) for one in gc.get_objects())


def test_nothing_of_a_step_is_held(model, tmp_path):
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer):
        trained(model, optimizer, batches(1))
        held = tensors()
        trained(model, optimizer, batches(5))
        assert tensors() <= held  # what other tests have left may go meanwhile


# what a step is


def test_micro_batches_are_one_step(model, tmp_path):
    data, optimizer = batches(4), sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer):
        for pair in data.split(2):
            for x in pair:
                model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    with bp.open_run(tmp_path) as run:
        assert run.steps.tolist() == [0, 1]
        assert [run.at(step).backwards for step in (0, 1)] == [2, 2]
        assert run.at(0)["embed"]["value.count"] == run.at(0)["embed"]["grad.count"] == 2 * 5 * 4
        assert run.at(0)["embed.weight"]["grad.count"] == 12


def test_every_third_step_is_measured_and_all_are_logged(model, tmp_path):
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer, every=3) as run:
        trained(model, optimizer, batches(7), run.log)
    with bp.open_run(tmp_path) as run:
        assert run.series("embed", "grad.rms")[0].tolist() == [0, 3, 6]
        assert run.series("embed.weight", "grad.rms")[0].tolist() == [0, 3, 6]
        assert run.series("loss", "logged")[0].tolist() == list(range(7))


def test_a_loss_is_logged_beside_its_own_step(model, tmp_path):
    losses, optimizer = [], sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer) as run:
        for at, x in enumerate(batches(3)):
            loss = model(x).square().mean()
            losses.append(loss.item())
            run.log(early=loss)  # before the step has ended
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            run.log(late=loss, count=at, bad=float("nan"), large=torch.tensor(float("inf")))
    with bp.open_run(tmp_path) as run:
        assert run.series("early", "logged")[1].tolist() == pytest.approx(losses)
        assert run.series("late", "logged")[1].tolist() == pytest.approx(losses)
        assert run.series("count", "logged")[1].tolist() == [0, 1, 2]
        assert numpy.isnan(run.at(1)["bad"]["logged"])
        assert message(bp.BadOption, lambda: run.series("count", "grad.rms")) == (
            "'count' has no grad\n  asked: run.series('count', 'grad.rms')\n  found: it has logged\n"
            "  next:  run.series('count', 'logged')"
        )
        assert run.series("large", "logged")[1].tolist() == [numpy.inf] * 3


def test_with_several_optimizers_a_step_ends_with_the_last(model, tmp_path):
    first = torch.optim.SGD(model.embed.parameters(), lr=0.1)
    last = torch.optim.SGD(model.head.parameters(), lr=0.1)
    with bp.watch(model, tmp_path, optimizer=[first, last]):
        for x in batches(3):
            model(x).square().mean().backward()
            first.step()
            last.step()
            model.zero_grad()
    with bp.open_run(tmp_path) as run:
        assert run.steps.tolist() == [0, 1, 2]
        assert run.series("embed.weight", "grad.rms")[0].tolist() == [0, 1, 2]
        assert run.series("head.weight", "param.rms")[0].tolist() == [0, 1, 2]
        assert "body.0.weight" not in run.names  # no optimizer has it


def test_a_closure_s_calls_are_one_step(model, tmp_path):
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    (x,), calls = batches(1), []

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        calls.append(rms(model.head.weight.grad))
        return loss

    with bp.watch(model, tmp_path, optimizer=optimizer):
        optimizer.step(closure)
    with bp.open_run(tmp_path) as run:
        assert (run.steps.tolist(), run.at(0).backwards) == ([0], len(calls))
        assert run.at(0)["embed"]["value.count"] == len(calls) * 20
        assert run.at(0)["head.weight"]["grad.rms"] == pytest.approx(calls[-1], rel=1e-5)


def test_what_the_optimizer_uses_and_what_backward_left(model, tmp_path):
    optimizer, left, used = sgd(model), [], []
    with bp.watch(model, tmp_path, optimizer=optimizer, clipping=True):
        for x in batches(3):
            for half in x.split(3):
                model(half).square().sum().backward()
            left.append(rms(model.head.weight.grad))
            nn.utils.clip_grad_norm_(model.parameters(), 1e-2)
            used.append(rms(model.head.weight.grad))
            optimizer.step()
            optimizer.zero_grad()
    with bp.open_run(tmp_path) as run:
        assert run.series("head.weight", "grad_backward.rms")[1].tolist() == pytest.approx(left, rel=1e-5)
        assert run.series("head.weight", "grad.rms")[1].tolist() == pytest.approx(used, rel=1e-5)


@pytest.mark.parametrize("fused", [False, True])
def test_a_scaler_s_steps(model, tmp_path, fused):
    """A step that overflows is a row of its own; gradients are shown as if nothing had been scaled."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
    scaler, grads = torch.amp.GradScaler("cpu", init_scale=2.0**10), []
    with bp.watch(model, tmp_path, optimizer=optimizer, scaler=scaler):
        for at, x in enumerate(batches(4)):
            loss = model(x).square().mean() * (float("inf") if at == 1 else 1.0)
            scaler.scale(loss).backward()
            grads.append(rms(model.head.weight.grad) / scaler.get_scale())
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    with bp.open_run(tmp_path) as run:
        assert (run.steps.tolist(), run.skipped.tolist()) == ([0, 1, 2, 3], [1])
        assert run.series("loss scale", "logged")[1].tolist() == [1024, 1024, 512, 512]
        for at in (0, 2, 3):
            assert run.at(at)["head.weight"]["grad.rms"] == pytest.approx(grads[at], rel=1e-5)
        assert run.at(1)["head"]["grad.posinf"] + run.at(1)["head"]["grad.neginf"] > 0
    twin = Net()
    twin.load_state_dict(model.state_dict())
    with bp.probe(twin, "head") as rec:
        twin(batches(1)[0]).square().mean().backward()
    with bp.watch(model, tmp_path / "again", optimizer=optimizer, scaler=scaler):
        scaler.scale(model(batches(1)[0]).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()
    with bp.open_run(tmp_path / "again") as run:
        assert run.at(0)["head"]["grad.rms"] == pytest.approx(rms(rec["head"].grad), rel=1e-5)


def test_a_step_without_backward_says_so(model, tmp_path):
    with bp.watch(model, tmp_path) as run:
        model(batches(1)[0])
        run.step()
    with bp.open_run(tmp_path) as run:
        assert run.at(0).backwards == 0
        assert "grad.rms" not in run.at(0)["embed"]


def test_what_the_whole_model_returns_is_selected_as_it_is_named(model, tmp_path):
    with bp.watch(model, tmp_path, select="return") as run:
        model(batches(1)[0]).sum().backward()
        run.step()
    with bp.open_run(tmp_path) as run:
        assert run.names == ["return"]


# what is asked wrongly


def refused(error, *args, **kwargs):
    def entered():
        with bp.watch(*args, **kwargs):
            pass

    return message(error, entered)


def test_what_cannot_be_watched_is_refused(model, tmp_path):
    assert refused(bp.NothingMatched, model, tmp_path, select="boddy.*").splitlines()[0] == (
        "the pattern 'boddy.*' matches nothing in Net's modules and parameters"
    )
    assert "asks for one of several calls" in refused(bp.BadName, model, tmp_path, select="body#1")
    assert "the nearest: body" in refused(bp.NothingMatched, model, tmp_path, select="body:x")
    assert "what='update' needs optimizer=" in refused(bp.BadOption, model, tmp_path, what="update")
    assert "clipping=True needs optimizer=" in refused(bp.BadOption, model, tmp_path, clipping=True)
    assert "an optimizer is given twice" in refused(bp.BadOption, model, tmp_path, optimizer=[sgd(model)] * 2)
    assert "the character NUL in it" in refused(bp.BadOption, model, "a\0b")
    file = tmp_path / "file"
    file.touch()
    for folder in (file, file / "run"):
        assert f"found: {file} is a file" in refused(bp.BadOption, model, folder)
    file.unlink()
    assert "optimizer is an optimizer, or several" in refused(bp.BadOption, model, tmp_path, optimizer="sgd")
    assert "every is a whole number from 1 on" in refused(bp.BadOption, model, tmp_path, every=0)
    assert "bp.watch takes a model" in refused(bp.BadOption, 3, tmp_path)
    assert "Net is a class" in refused(bp.BadOption, Net, tmp_path)
    assert "folder is the path of a folder" in refused(bp.BadOption, model, "")
    assert list(tmp_path.iterdir()) == []


def test_two_watches_of_a_folder_are_refused_and_of_a_model_are_not(model, tmp_path):
    optimizer = sgd(model)
    with bp.watch(model, tmp_path / "a", optimizer=optimizer), bp.watch(model, tmp_path / "b", optimizer=optimizer):
        assert "is being written already" in refused(bp.BadRun, model, tmp_path / "a")
        trained(model, optimizer, batches(1))
    for folder in "ab":
        with bp.open_run(tmp_path / folder) as run:
            assert run.at(0)["embed"]["grad.count"] == 20


def test_a_step_by_hand_beside_an_optimizer_is_refused(model, tmp_path):
    with bp.watch(model, tmp_path, optimizer=sgd(model)) as run:
        assert message(bp.BadOption, run.step) == (
            "the optimizer ends the steps of this run\n  asked: run.step()\n  found: optimizer= was given\n"
            "  next:  leave out run.step(), or optimizer="
        )
        assert "loss is not one" in message(bp.BadOption, lambda: run.log(loss=torch.ones(2)))
        assert "loss is not one" in message(bp.BadOption, lambda: run.log(loss="3"))
        assert "a number that is logged has a name" in message(bp.BadOption, lambda: run.log(**{"": 1.0}))
    assert "this watch is not open" in message(bp.BadOption, lambda: run.log(loss=1))
    assert repr(run) == f"<Watch of Net in {str(tmp_path)!r}, step 0>"


def test_a_parameter_of_a_dtype_in_which_nothing_is_computed(model, tmp_path):
    model.kept = nn.Parameter(torch.ones(3).to(torch.float8_e4m3fn), requires_grad=False)
    optimizer = sgd(model)
    with bp.watch(model, tmp_path, optimizer=optimizer, what=("value", "grad", "param", "update")):
        trained(model, optimizer, batches(1))
    with bp.open_run(tmp_path) as run:
        assert run.at(0)["kept"]["update.rms"] == 0.0 and run.at(0)["kept"]["param.rms"] == 1.0
