"""No analysis reads a sentence: with each message rendered as its bare code, every finding is the same."""

import warnings

import pytest
import torch

import backprobe as bp
from backprobe.record import reasons
from explain_cases import BLOCKS, FUNCTIONS, W, X
from nonfinite_cases import CASES
from sampled import every

SENTENCES = reasons.render
LARGE = torch.tensor(float("inf"))


def arguments():
    return torch.tensor(X, requires_grad=True), torch.tensor(W, requires_grad=True)


def found(report):
    """What findings are, but for their words: ``why`` is a code itself."""
    places = [(one.source.file, one.source.line) if one.source is not None else None for one in report.findings]
    return [
        (one.kind, place, one.name, one.chain, one.fields.get("why"), len(one.facts), bool(one.remedy))
        for one, place in zip(report.findings, places, strict=True)
    ]


TRIED = 2  # each experiment runs the program several times, and a long list has hundreds of names


def explained(recording):
    """The findings of a whole recording and of each of its names, of which the first few are experimented with."""
    names = [name for name, entry in recording.items() if entry.status != "not_tensor"]
    each = (bp.explain(recording, name, experiments=at < TRIED) for at, name in enumerate(names))
    return [found(bp.explain(recording)), *map(found, each)]


def in_a_block(case):
    args = [arg.clone().requires_grad_() for arg in case.args]
    with bp.probe(nonfinite=True) as rec:
        output = case.program(*args)
        output.backward(torch.ones_like(output))
    return rec


class Steps(torch.nn.Module):
    """Layers that run, that do not, and that are frozen; one whose output is taken out of the graph."""

    def __init__(self):
        super().__init__()
        self.used, self.idle, self.cut = (torch.nn.Linear(2, 2) for _ in range(3))
        self.frozen = torch.nn.Linear(2, 2).requires_grad_(False)

    def forward(self, x):
        return (self.used(self.frozen(x)) + self.cut(x).detach()).sum()


def steps():
    """Two steps of training in one block, with ``.data`` written between them."""
    model, x = Steps(), torch.ones(3, 2)
    with bp.probe(model, ["**", "**:*"]) as rec:
        for _ in range(2):
            model(x).backward()
            model.used.weight.data.mul_(0.5)
    return rec


def hooked():
    x = torch.ones(2, requires_grad=True)

    def f(x):
        u = x * 2
        u.register_hook(torch.zeros_like)
        return (u * 3).sum()

    return bp.probe(f)(x)


def many():
    """A list that passes on more values than are followed."""

    def f(x):
        numbers = []
        for k in range(100):
            u = x * float(k)
            numbers.append(u.sum().item())
        return (sum(numbers) * x).sum()

    return bp.probe(f)(torch.ones(2))


def limited():
    """A call of ``backward()`` that asks for one leaf alone, and a line under ``no_grad`` of what is not recorded."""
    x, w = arguments()
    net = torch.nn.Linear(2, 2)
    with bp.probe() as rec:
        with torch.no_grad():
            fixed = net(torch.ones(2))
        u = x * w
        loss = (u * fixed).sum()
        loss.backward(inputs=[w])
    return rec


def scaled_steps():
    """Two steps of training in a block: a scale that overflows, a mask, and a learning rate that is infinite."""
    net, scaler = torch.nn.Linear(2, 1), torch.amp.GradScaler("cpu", init_scale=2.0**100)
    optimizer = torch.optim.SGD(net.parameters(), lr=float("inf"))
    with bp.probe(nonfinite=True) as rec:
        for _ in range(2):
            masked = torch.softmax(net(torch.ones(3, 2)).masked_fill(torch.eye(3, 1) > 0, float("-inf")), 0)
            loss = (masked * 1e30).sum()
            scaler.scale(loss).backward()
            optimizer.step()
    return rec


def a_buffer():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1)).eval()
    model[1].running_mean.fill_(float("nan"))
    model[2].weight.data.fill_(float("inf"))
    return bp.probe(model, of=torch.sum, nonfinite=True)(torch.ones(3, 2))


def at_a_pole(x):
    r = torch.sqrt(x)
    s = x * 3
    return (r + s).sum()


def a_scaled_pole():
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    with bp.probe(nonfinite=True) as rec:
        loss = at_a_pole(x)
        (loss * 4.0).backward()
    return rec


def by_what_is_written(x):
    y = x * torch.inf
    z = x * LARGE
    return y.sum() + z.sum()


def in_turns(x):
    total = 0.0
    for k in range(4):
        y = torch.log(x - k % 2)
        total = total + y.sum()
    return total


PROGRAMS = {
    **{f"function {one.name}": lambda one=one: bp.probe(one.program)(*arguments()) for one in FUNCTIONS},
    **{f"block {one.name}": lambda one=one: one.program(*arguments(), bp.probe) for one in BLOCKS},
    **{
        f"NaN {one.program.__name__}": lambda one=one: bp.probe(one.program, nonfinite=True)(*one.args) for one in CASES
    },
    **{f"NaN in a block {one.program.__name__}": lambda one=one: in_a_block(one) for one in CASES},
    "a model": lambda: bp.probe(Steps())(torch.ones(3, 2)),
    "steps": steps,
    "a hook": hooked,
    "a long list": many,
    "a limited backward": limited,
    "NaN by steps": scaled_steps,
    "NaN in a model": a_buffer,
    "NaN at a pole under a scale": a_scaled_pole,
    "NaN by itself": lambda: bp.probe(at_a_pole)(torch.zeros(2)),
    "NaN as it is written": lambda: bp.probe(by_what_is_written, nonfinite=True)(torch.ones(2)),
    "NaN in turns": lambda: bp.probe(in_turns, nonfinite=True)(torch.zeros(2)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", every(6, PROGRAMS))
def test_a_finding_depends_on_no_sentence(program, monkeypatch, tmp_path):
    torch.manual_seed(0)
    said = explained(PROGRAMS[program]())
    monkeypatch.setattr(reasons, "render", lambda code, sentence, fields: code)
    torch.manual_seed(0)
    recording = PROGRAMS[program]()
    assert all(entry.reason in ("", *reasons.SENTENCES) for entry in recording.values())
    assert explained(recording) == said


def test_the_corpus_meets_most_codes():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recordings = [PROGRAMS[program]() for program in PROGRAMS if not program.startswith("NaN")]
    met = {entry.why.code for recording in recordings for entry in recording.values() if entry.why is not None}
    met |= {note.code for recording in recordings for note in recording.record.notes}
    assert {
        "inherited",
        "frozen_no_grad",
        "reentrant_checkpoint",
        "no_path_to_inputs",
        "hooked",
        "passes_on_many",
        "written_past_autograd",
        "no_grad",
        "module_not_run",
    } <= met


@pytest.mark.parametrize("code", reasons.SENTENCES)
def test_each_sentence_is_filled_in_with_its_fields_alone(code):
    class Fields(dict):
        def __missing__(self, name):
            return f"<{name}>"

    text = SENTENCES(code, reasons.SENTENCES[code], Fields())
    assert text
    assert "{" not in text
