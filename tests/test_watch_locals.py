"""Locals of forwards that are watched: rows are those of a probe of the same step, and the training is the same."""

import copy
import io
import threading

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from asked import message
from watched import batches, rms, sgd, trained


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.calls = nn.Linear(4, 4), 0

    def forward(self, x, scale=1.0):
        self.calls += 1
        scores = self.inner(x) * scale
        parts = (scores.relu(), {"twice": scores * 2}, 3)
        h = parts[0]
        h = h + parts[1]["twice"]
        h += x
        shown = sorted(locals())
        assert shown == ["h", "parts", "scale", "scores", "self", "x"]
        return h


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(3, 4)
        self.h = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        h = self.embed(x)
        for one in self.h:
            h = one(h)
        kept = self.embed.weight
        return h.sum(1, keepdim=True) + kept.sum()


ALL = ["**:h", "**:scores", "**:parts", "**:x", ":kept"]


@pytest.fixture(autouse=True)
def nothing_compiled():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Net()


def step(model, run, data=None):
    for x in batches(1) if data is None else data:
        model(x).square().mean().backward()
    run.step()


def merged(rec, name, part):
    """All that a name of a run stands for in a recording."""
    return torch.cat([getattr(one, part).reshape(-1) for one in rec.select(name).values()])


def test_rows_are_those_that_a_probe_gives(model, tmp_path):
    (x,) = batches(1)
    twin = copy.deepcopy(model)
    with bp.probe(twin, ALL) as rec:
        twin(x).square().mean().backward()
    with bp.watch(model, tmp_path, select=ALL) as run:
        step(model, run)
    with bp.open_run(tmp_path) as run:
        row = run.at(0)
        for block in ("h.0", "h.1"):
            for name in ("scores", "h", "x", "parts.0", "parts.1.twice"):
                name = f"{block}:{name}"
                assert row[name]["value.rms"] == pytest.approx(rms(merged(rec, name, "value")), rel=1e-5), name
                assert row[name]["grad.rms"] == pytest.approx(rms(merged(rec, name, "grad")), rel=1e-5), name
        assert row[":h"]["grad.count"] == 60
        assert row[":kept"]["grad.rms"] == pytest.approx(rms(rec[":kept"].grad), rel=1e-5)
        assert run.series("h", "grad.rms")[1] == run.series(":h", "grad.rms")[1]
        assert [one.name for one in run.gaps.findings] == [":x"]  # the input requires no gradient


def hooks_and_forwards(model):
    return [(type(one).forward, "forward" in vars(one), len(one._forward_hooks)) for one in model.modules()]


def test_the_training_is_bitwise_the_same_and_nothing_stays(model, tmp_path):
    twin, before = copy.deepcopy(model), hooks_and_forwards(model)
    trained(twin, sgd(twin, lr=1e-3), batches(6))
    optimizer = sgd(model, lr=1e-3)
    with bp.watch(model, tmp_path, select=[*ALL, "**:mul()"], optimizer=optimizer, every=2):
        trained(model, optimizer, batches(6))
    assert all(one.isfinite().all() for one in model.parameters())
    assert all(torch.equal(*both) for both in zip(model.state_dict().values(), twin.state_dict().values(), strict=True))
    assert hooks_and_forwards(model) == before
    assert [one.calls for one in model.h] == [6, 6]
    with bp.open_run(tmp_path) as run:
        assert run.series("h.1:scores", "grad.rms")[0].tolist() == [0, 2, 4]
        assert run.at(0)["h.0:mul()"]["value.count"] == 20


def test_micro_batches_are_merged_and_an_evaluation_is_not_counted(model, tmp_path):
    with bp.watch(model, tmp_path, select="h.0:scores") as run:
        with torch.no_grad():
            model(batches(1)[0])
        step(model, run, batches(3))
    with bp.open_run(tmp_path) as run:
        assert run.at(0)["h.0:scores"]["value.count"] == run.at(0)["h.0:scores"]["grad.count"] == 60


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_checkpoint_counts_once(model, tmp_path, reentrant):
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = copy.deepcopy(model)

        def forward(self, x):
            return checkpoint(self.net, x, use_reentrant=reentrant)

    with bp.watch(model, tmp_path / "a", select="**:scores") as run:
        step(model, run, [batches(1)[0].requires_grad_()])
    other = Checkpointed()
    with bp.watch(other, tmp_path / "b", select="**:scores") as run:
        step(other, run, [batches(1)[0].requires_grad_()])
    with bp.open_run(tmp_path / "a") as one, bp.open_run(tmp_path / "b") as two:
        assert dict(one.at(0)["h.1:scores"]) == dict(two.at(0)["net.h.1:scores"])


class Views(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 4)

    def forward(self, x):
        u = self.inner(x)
        used, around, early = u[:, 0], u[:, 1], u[:, 2]
        before = (early * 3).sum()
        around.mul_(5)
        early.mul_(5)
        whole = u * 1
        whole[:, 0] = 1.0
        return before + whole.sum() + used.sum()


def test_what_is_written_to_has_its_own_gradient_or_a_labelled_gap(tmp_path):
    torch.manual_seed(0)
    model, names = Views(), ["u", "used", "whole", "around", "early"]
    (x,) = batches(1)
    with bp.probe(model, ":*") as rec:
        model(x).square().backward()
    model.zero_grad()
    with bp.watch(model, tmp_path, select=":*") as run:
        model(x).square().backward()
        run.step()
    with bp.open_run(tmp_path) as run:
        gaps = {name: one.kind for one in run.gaps.findings for name in one.names}
        assert {name for name in names if gaps.get(f":{name}") == "written"} == {"around", "early", "used"}
        for name in ("u", "whole"):
            assert run.at(0)[name]["grad.rms"] == pytest.approx(rms(rec[f":{name}#0"].grad), rel=1e-5), name


def test_two_watches_and_a_probe_inside(model, tmp_path):
    with (
        bp.watch(model, tmp_path / "a", select="**:scores") as first,
        bp.watch(model, tmp_path / "b", select=["**:h", "h.0:mul()"]) as second,
    ):
        model(batches(1)[0]).square().mean().backward()
        first.step()
        second.step()
        with bp.probe(model, "**:scores") as rec:
            model(batches(1)[0]).square().mean().backward()
        first.step()
    assert "h.0:scores" in rec
    with bp.open_run(tmp_path / "a") as run, bp.open_run(tmp_path / "b") as other:
        assert run.at(0)["h.1:scores"]["grad.count"] == 20 and other.at(0)["h.1:h"]["grad.count"] == 60
        assert other.at(0)["h.0:mul()"]["value.count"] == 20
        assert {(name, one.kind) for one in run.gaps.findings for name in one.names if one.kind == "other_forward"} == {
            ("h.0:scores", "other_forward"),
            ("h.1:scores", "other_forward"),
        }


def test_what_it_is_asked_wrongly(model, tmp_path):
    def refused(error, **options):
        return message(error, lambda: bp.watch(model, tmp_path, **options).__enter__())

    assert "the nearest: h.0:scores" in refused(bp.NothingMatched, select="h.0:score")
    assert "the nearest: h.1:scores" in refused(bp.NothingMatched, select="h.2:scores")
    assert "asks for one of several calls" in refused(bp.BadName, select="h.0:h#1")
    assert "functions that forwards call" in refused(bp.Unsupported, select="h.0/helper:q")
    model.h[1] = torch.compile(model.h[1], backend="eager")
    assert "local variables of a compiled forward" in refused(bp.Unsupported, select="h.1:scores")
    with bp.watch(model, tmp_path, select="h.0:scores") as run:
        assert run.current_step == 0


def test_a_function_that_is_compiled_later_is_an_error_that_names_it(model, tmp_path):
    model.h = nn.ModuleList()  # in their forwards, an older Dynamo changes what locals() are
    compiled = torch.compile(lambda x: model(x).square().mean(), backend="eager")
    with pytest.raises(bp.Unsupported, match="has run in a function that is compiled"):
        with bp.watch(model, tmp_path, select=":kept") as run:
            compiled(batches(1)[0]).backward()
            run.step()


@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
def test_what_is_scripted_while_it_is_watched(tmp_path):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    with bp.watch(model, tmp_path, select="**:input") as run:
        scripted = torch.jit.script(model)
        assert torch.equal(scripted(batches(1)[0]), model(batches(1)[0]))
        run.step()


def test_copies_other_threads_and_errors(model, tmp_path):
    with bp.watch(model, tmp_path, select="**:scores") as run:
        twin, shallow, saved = copy.deepcopy(model), copy.copy(model), io.BytesIO()
        torch.save(model, saved)
        for other in (twin, torch.load(io.BytesIO(saved.getvalue()), weights_only=False)):
            other(batches(1)[0]).sum().backward()
        assert not any("forward" in vars(one) for one in (*twin.modules(), *shallow.modules()))
        thread = threading.Thread(target=lambda: model(batches(1)[0]))
        thread.start()
        thread.join()
        with pytest.raises(RuntimeError, match="shapes"):
            model(torch.ones(2, 9))
        step(model, run)
    with bp.open_run(tmp_path) as run:
        assert run.at(0)["h.0:scores"]["value.count"] == 20


class Streaming(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        for _ in range(3):
            x = self.inner(x)
            yield x


def test_generators_shared_modules_and_forwards_of_a_module_s_own(tmp_path):
    torch.manual_seed(0)
    stream = Streaming()
    model = nn.ModuleDict({"a": stream, "b": stream, "c": nn.Identity()})
    model["c"].forward = lambda value: (doubled := value * 2)
    with bp.watch(model, tmp_path, select=["b:x", "c:doubled"]) as run:
        last = list(model["a"](batches(1)[0]))[-1]
        next(model["b"](batches(1)[0]))  # left unfinished
        model["c"](last).sum().backward()
        run.step()
    with bp.open_run(tmp_path) as run:
        assert run.at(0)["b:x"]["value.count"] == 15 * 6
        assert run.at(0)["c:doubled"]["grad.sum"] == 15
