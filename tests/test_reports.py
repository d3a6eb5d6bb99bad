"""All reports have one shape: their findings, whether nothing was found, whether all was judged, and plain data."""

import json
import math

import pytest
import torch

import backprobe as bp

KEYS = {"ok", "complete", "heading", "findings", "notes"}
OF_FINDINGS = {"kind", "name", "headline", "source", "facts", "chain", "remedy", "cause", "lost", "consequence"}
FOUND = bp.Finding("detached", "d", "'d' is cut off", facts=("a fact",))


def cut(x, w):
    return (x.detach() * w).sum()


def well(x, w):
    return (x * w).sum()


def rooted(x):
    return torch.sqrt(x - 1).sum()


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def wrong(x, w):
    return Tripled.apply(x * w).sum()


X, W = torch.tensor([1.0, 2.0]), torch.tensor(3.0)


def flat():
    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    model[0].bias.data.fill_(-100.0)
    return bp.probe(model, of=torch.sum)(torch.ones(8, 2))


REPORTS = {  # with a finding, and without one
    "explain": (lambda: bp.explain(bp.probe(cut)(X, W)), lambda: bp.explain(bp.probe(well)(X, W))),
    "explain a name": (lambda: bp.explain(bp.probe(cut)(X, W), "x"), lambda: bp.explain(bp.probe(cut)(X, W), "w")),
    "nonfinite": (
        lambda: bp.explain(bp.probe(rooted, nonfinite=True)(X)),
        lambda: bp.explain(bp.probe(rooted, nonfinite=True)(X + 1)),
    ),
    "explain a tensor": (lambda: bp.explain(W.square(), W), None),
    "health": (lambda: bp.health(flat()), lambda: bp.health(bp.probe(well)(X, W))),
    "check": (lambda: bp.check(wrong)(X, W), lambda: bp.check(well)(X, W)),
    "diff": (
        lambda: bp.diff(bp.probe(well)(X, W), bp.probe(well)(X, W + 1)),
        lambda: bp.diff(bp.probe(well)(X, W), bp.probe(well)(X, W)),
    ),
    "provoke": (
        lambda: bp.provoke(rooted, bounds=(-5.0, 5.0))(X + 2),
        lambda: bp.provoke(rooted, bounds=(2.0, 5.0))(X + 2),
    ),
}


def reports():
    for verb, each in REPORTS.items():
        for is_found, made in zip((True, False), each, strict=True):
            if made is not None:
                yield pytest.param(made, is_found, id=f"{verb}, {'found' if is_found else 'nothing'}")


@pytest.mark.parametrize(("made", "is_found"), [*reports()])
def test_a_report_is_a_collection_of_its_findings(made, is_found):
    shaped(made(), is_found)


def shaped(report, is_found):
    assert isinstance(report, bp.Report)
    assert [*report] == [*report.findings] and len(report) == len(report.findings)
    assert bool(report) is is_found and report.ok is not is_found
    assert isinstance(report.complete, bool)
    data = report.to_dict()
    assert data.keys() >= KEYS and json.loads(json.dumps(data, allow_nan=False)) == data
    assert (data["ok"], data["complete"], data["heading"]) == (report.ok, report.complete, report.heading)
    assert [one["headline"] for one in data["findings"]] == [one.headline for one in report]
    for one, finding in zip(data["findings"], report, strict=True):
        assert one.keys() >= OF_FINDINGS
        line = finding.source
        assert one["source"] == (line and {"file": line.file, "line": line.line, "text": line.text})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, rate in (("quiet", 0.001), ("loud", 1e30)):
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        with bp.watch(model, folder / name, optimizer=optimizer):
            for _ in range(4):
                model(torch.ones(4, 2)).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    return folder


def test_the_reports_of_runs(runs):
    with bp.open_run(runs / "loud") as loud, bp.open_run(runs / "quiet") as quiet:
        shaped(loud.alerts, is_found=True)
        shaped(loud.report(), is_found=True)
        shaped(loud.report(step=1), is_found=False)
        shaped(quiet.gaps, is_found=False)
        shaped(quiet.report(), is_found=False)
        assert loud.report().findings == loud.alerts.findings
        assert loud.report().to_dict()["alerts"] == loud.report().to_dict()["findings"]
        named = next(one.name for one in loud.alerts)
        shaped(loud.report(named), is_found=True)
        shaped(bp.diff(quiet, loud), is_found=True)
        shaped(bp.diff(quiet, quiet), is_found=False)
        assert not quiet.alerts.complete and "updates were not watched" in quiet.alerts.notes[0]


# the three answers that there were, in two


def test_all_was_judged_and_nothing_is_wrong():
    report = bp.check(well)(X, W)
    assert (report.ok, report.complete) == (True, True)
    report.assert_ok(strict=True)


def test_something_is_wrong():
    report = bp.check(wrong)(X, W)
    assert (report.ok, report.complete) == (False, True)
    with pytest.raises(AssertionError, match="1 derivative is wrong"):
        report.assert_ok()


def test_nothing_is_wrong_and_not_all_was_judged():
    def hidden(x):
        u = x * 2
        u.data.mul_(2)
        return u.sum()

    report = bp.check(hidden)(X)
    assert (report.ok, report.complete) == (True, False)
    report.assert_ok()
    with pytest.raises(AssertionError, match=r"\.data"):
        report.assert_ok(strict=True)


def test_something_is_wrong_and_not_all_was_judged():
    def both(x, w):
        u = x * w
        u.data.mul_(2)
        return Tripled.apply(u).sum()

    report = bp.check(both)(X, W)
    assert (report.ok, report.complete) == (False, False)


def test_where_nothing_could_be_judged_a_report_is_not_complete():
    report = bp.check(lambda x: x)(X)
    assert (report.ok, report.complete, report.judged) == (True, False, 0)


def test_what_could_not_be_compared_leaves_a_comparison_incomplete():
    report = bp.diff(bp.probe(well)(X, W), bp.probe(well, "x")(X, W))
    assert (report.ok, report.complete) == (True, False)


def test_health_that_did_not_look_at_all_is_not_complete():
    def spoilt(x):
        return (x / 0).sum()

    assert bp.health(bp.probe(well)(X, W)).complete
    report = bp.health(bp.probe(spoilt)(X))
    assert not report.complete and "hold NaN or Inf and were not checked" in report.notes[0]


def test_a_cause_that_is_not_known_leaves_an_explanation_incomplete():
    def counted(u, w):
        y = torch.histc(u * 1.0, 4).sum() * w
        return y.sum()

    report = bp.explain(bp.probe(counted)(X, W), "u")
    assert report.of_kind("unknown") and not report.complete
    assert bp.explain(bp.probe(cut)(X, W)).complete
    assert bp.explain(bp.probe(rooted, nonfinite=True)(X)).complete


def test_a_search_that_left_operations_out_is_not_complete():
    assert bp.provoke(rooted, bounds=(2.0, 5.0))(X + 2).complete
    report = bp.provoke(rooted)(X - 2)  # the example itself breaks, and nothing was searched
    assert len(report) == 1 and not report.complete


# plain data


def test_numbers_that_json_does_not_have_are_words():
    number = bp.Alert("dead", "w", "one", number=math.nan, threshold=-math.inf)
    data = bp.Report("one", (number,)).to_dict()["findings"][0]
    assert (data["number"], data["threshold"]) == ("NaN", "-infinite")


def test_a_finding_keeps_what_its_class_has():
    (found,) = bp.check(wrong)(X, W).to_dict()["findings"]
    assert found["input"] == "x * w" and found["error"] == pytest.approx(2 / 3)
    (found,) = bp.provoke(rooted, bounds=(-5.0, 5.0))(X + 2).to_dict()["findings"]
    assert found["broken"] == "gradient" and found["args"][0]["dtype"] == "float32"


def test_the_input_that_breaks_is_in_the_data():
    report = bp.provoke(rooted, bounds=(-5.0, 5.0))(X + 2)
    (x,) = report.findings[0].args
    assert x.min() == 1.0
    (found,) = json.loads(json.dumps(report.to_dict(), allow_nan=False))["findings"]
    assert found["args"] == [{"shape": list(x.shape), "dtype": "float32", "numbers": x.tolist()}]


def test_the_lines_of_a_chain_are_those_of_its_entries():
    def f(x, w):
        u = x * w
        d = u.detach()
        return d * w

    (found,) = bp.explain(bp.probe(f)(W, W + 1), "x")
    assert found.chain == ("x", "u", "d")
    assert [line.text.strip() for line in found.lines] == ["def f(x, w):", "u = x * w", "d = u.detach()"]


def test_the_old_name_says_the_new_one():
    with pytest.raises(bp.UnknownAttribute, match="'data'") as error:
        bp.check(well)(X, W).data  # noqa: B018
    assert error.value.next == "report.to_dict()"
    assert not hasattr(bp.Report("nothing"), "data")


def test_a_report_of_nothing_is_false_and_still_a_report():
    assert not bp.Report("fine") and bp.Report("fine") is not None
    assert bp.Report("one", (FOUND,)) and next(iter(bp.Report("one", (FOUND,)))) is FOUND
