"""What ``explain`` and ``health`` say of a recording is proven by it, sentence by sentence, without the analysis."""

import re
import sys
import warnings
from operator import attrgetter

import pytest
import torch

import backprobe as bp
from backprobe.explain.nonfinite import text as nonfinite
from backprobe.explain.text import SENTENCES
from backprobe.record import reasons
from field.asking import answered, asked, programs
from proofs import ADVICE, HEALTH, NUMBERS, OF_ERRORS, OF_EXPERIMENTS, OF_GRAPHS, OF_TAPES, PARTS, PROOFS, Said
from sampled import every, one_in
from test_codes import PROGRAMS, TRIED
from threads import pytorch_missing, pytorch_numbers

explain_module = sys.modules["backprobe.explain"]  # the name in the package is the function
RENDER = reasons.render
THREADS = [*pytorch_missing.THREADS, *pytorch_numbers.THREADS]


def from_thread(thread):
    options = {"nonfinite": True} if thread.form == "nonfinite" else {}

    def probe(*args, **kwargs):
        return bp.probe(*args, **options, **kwargs)

    return probe(thread.program)(*thread.args) if thread.args else thread.program(probe)


RECORDED = {**PROGRAMS, **{f"thread {one.name}": lambda one=one: from_thread(one) for one in THREADS}}


class Heard:
    """The sentences that were rendered, by their text."""

    def __init__(self):
        self.codes = {}

    def render(self, code, sentence, fields):
        text = RENDER(code, sentence, fields)
        self.codes.setdefault(text, []).append((code, dict(fields)))
        return text


def statements(report):
    """The sentences of a report, each with its finding if it belongs to one."""
    yield from ((part, None) for part in (report.heading, *report.heading.split("; "), *report.notes))
    for one in report.findings:
        yield from ((text, one) for text in (one.headline, one.consequence, *one.facts))


def said(rec, heard, report, asked):
    for text, finding in statements(report):
        for code, fields in heard.codes.get(text, ()):
            yield Said(rec, code, fields, finding, asked or "")


def unproven(rec, heard, report, asked):
    """The sentences of a report whose proof fails."""
    for one in said(rec, heard, report, asked):
        proof = {**NUMBERS, **PROOFS}.get(one.code)
        if proof is not None and not proof(one):
            yield one.code, one.finding or report.heading


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", every(3, RECORDED))
def test_what_is_said_of_a_recording_is_proven_by_it(program, monkeypatch):
    torch.manual_seed(0)
    heard = Heard()
    monkeypatch.setattr(reasons, "render", heard.render)
    rec = RECORDED[program]()
    names = [None, *(name for name, entry in rec.items() if entry.status != "not_tensor")]
    reports = [
        bp.explain(rec) if name is None else bp.explain(rec, name, experiments=at <= TRIED)
        for at, name in enumerate(names)
    ]
    wrong = [
        (name, *one) for name, report in zip(names, reports, strict=True) for one in unproven(rec, heard, report, name)
    ]
    assert not wrong, "\n\n".join(f"{name}: {code}\n{text}" for name, code, text in wrong)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "path", one_in(3, [one for one in programs("torch") if asked(one).ask.startswith("explain")], attrgetter("stem"))
)
def test_what_is_said_of_a_script_is_proven_by_its_recording(path, tmp_path, monkeypatch):
    heard, reports, explained = Heard(), [], explain_module._explain_recording

    def kept(recording, *rest):
        reports.append((recording, explained(recording, *rest)))
        return reports[-1][1]

    monkeypatch.setattr(reasons, "render", heard.render)
    monkeypatch.setattr(explain_module, "_explain_recording", kept)
    answered(path, asked(path).ask, tmp_path, monkeypatch)
    assert reports
    wrong = [one for rec, report in reports for one in unproven(rec, heard, report, None)]
    assert not wrong, "\n\n".join(f"{code}\n{text}" for code, text in wrong)


def test_every_sentence_has_a_proof_or_states_nothing_of_a_recording():
    others = ADVICE | PARTS | OF_ERRORS | OF_GRAPHS | OF_TAPES | OF_EXPERIMENTS
    codes = {code for code in (*SENTENCES, *nonfinite.SENTENCES) if not code.endswith("_next")}
    assert sorted(codes - others - PROOFS.keys() - NUMBERS.keys()) == []
    assert sorted((others | PROOFS.keys() | NUMBERS.keys()) - codes) == []


def test_a_false_sentence_is_found():
    """The proofs say no where a sentence is of another recording."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rec = bp.probe(lambda x, w: (x * w).sum())(torch.ones(2), torch.ones(2))
    false = [
        ("present", {"value": "'nothing'"}),
        ("frozen", {"value": "'x'"}),
        ("unused", {"value": "'x'"}),
        ("overview", {"there": 1, "all": 3}),
        ("not_used", {"names": "x"}),
        ("own_grad", {"value": "'x'"}),
        ("value_is_zero", {"target": "'return'"}),
        ("no_floats", {"names": "x, w"}),
        ("raised", {}),
        ("not_executed", {"value": "'x'"}),
        ("opaque", {"value": "'x'"}),
        ("values_lost", {"names": "x, w"}),
    ]
    told = [code for code, fields in false if PROOFS[code](Said(rec, code, fields))]
    assert told == ["own_grad"]  # an argument is a view, and no leaf


def sick(x):
    """Each kind of finding of ``health`` at once, but for what needs another dtype."""
    off = torch.relu(x @ torch.ones(4, 8) - 100)
    large = x @ torch.ones(4, 8) * 100
    full = torch.tanh(large)
    h = x
    for _ in range(8):
        h = torch.sigmoid(h @ torch.eye(4)) * 0.3
    g = x
    for _ in range(8):
        g = g @ (torch.eye(4) * 8)
    smooth = x * 3
    rounded = torch.round(smooth)
    return (off * 3).sum() + full.sum() + h.sum() + g.sum() + (rounded * 2).sum()


def flat(x):
    u = x * 1
    v = torch.relu(u)
    return v.sum() + x.sum()


def half(x):
    u = x * 2
    return (u.float() * 1e-7).sum()


def partly(x):
    """Six of eight units are 0 for all rows, and one gradient is large."""
    off = torch.relu(x @ torch.ones(4, 8) - torch.tensor([100.0] * 6 + [0.0, 0.0]))
    return (off * 3).sum() + (x * 1e9).sum()


class Branched(torch.nn.Module):
    """Two layers, of which one is cut off, or not called."""

    def __init__(self, is_called):
        super().__init__()
        self.used, self.other, self.is_called = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1), is_called

    def forward(self, x):
        return self.used(x) + (self.other(x).detach() if self.is_called else 0)


def trained(is_called):
    model = Branched(is_called)
    with bp.probe() as rec:
        model(ROWS).sum().backward()
    return rec


ROWS = torch.linspace(-3.0, 3.0, 64).reshape(16, 4)
HEALTHS = {
    "sick": lambda: bp.probe(sick)(ROWS),
    "flat": lambda: bp.probe(flat, partials="full")(-ROWS.abs()[0] - 1),
    "partly": lambda: bp.probe(partly)(ROWS),
    "half": lambda: bp.probe(half)(ROWS.half()),
    "cut": lambda: trained(True),
    "idle": lambda: trained(False),
    **{name: make for name, make in PROGRAMS.items() if not name.startswith("NaN")},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", HEALTHS)
def test_what_health_finds_is_proven_by_the_recording(program):
    torch.manual_seed(0)
    rec = HEALTHS[program]()
    found = [] if rec.record.is_of_several else bp.health(rec).findings
    wrong = [one for one in found if not HEALTH[one.kind](Said(rec, one.kind, {}, one))]
    assert not wrong, "\n\n".join(map(str, wrong))


def test_every_kind_of_health_is_met_and_has_a_proof():
    told = set(re.findall(r"``(\w+)``", bp.health.__doc__.partition("Kinds of findings:")[2].partition(". Each")[0]))
    assert told == HEALTH.keys()
    met = {one.kind for name in HEALTHS if name not in PROGRAMS for one in bp.health(HEALTHS[name]()).findings}
    assert met == told, told - met


@pytest.mark.parametrize("kind", HEALTH)
def test_a_proof_of_health_says_no_of_what_is_well(kind):
    rec = bp.probe(lambda x, w: (x * w).sum(), partials=True)(ROWS, ROWS.flip(0) + 1)
    headline = {
        "dead": "'x' is dead: a share of 1 of what it returns is 0",
        "dead_units": "3 of 4 units of 'x' are dead",
        "large_gradients": "the gradients of 'x' are large: rms 2e+04 at 'x'",
    }.get(kind, "")
    sizes = {"vanishing": "2, 1", "exploding": "1, 2"}.get(kind, "")
    lacking = ("without a gradient: x",) if kind in ("missing", "never_called") else ()
    facts = (f"3 layers, from 'x' to 'w'; norms of the gradient there: {sizes}",) if sizes else lacking
    name = "return" if kind == "zero_derivative" else "x"
    one = bp.Finding(kind, name, headline, facts=facts)
    if kind == "underflow":
        rec = bp.probe(lambda x: (x * 2).sum())(ROWS.half())
    assert not HEALTH[kind](Said(rec, kind, {}, one))
