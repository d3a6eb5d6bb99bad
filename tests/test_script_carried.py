"""NaN and Inf that one iteration of a script leaves to the next: said to be born where they were."""

import textwrap

import pytest

import backprobe as bp
from backprobe.probe.script import Script

HEAD = "import torch\nw = torch.tensor([0.5, 0.5], requires_grad=True)\n"
TEACHER = """
teacher = torch.tensor([1.0, 0.0])
count = 0
for batch in range(3):
    loss = -(teacher / teacher.sum() * torch.log(w)).sum()
    loss.backward()
    teacher = teacher * count / count  # born
    count += 1
"""
DIVIDED = """
def step(w, x, scale):
    out = w * x * scale
    loss = out.sum()
    loss.backward()
    return loss.detach()
scale = torch.tensor(1.0)
for i in range(4):
    loss = step(w, torch.ones(2), scale)
    scale = scale / (2 - i)  # born
"""
IN_A_FUNCTION = """
def train(w):
    mean = torch.zeros(2)
    for i in range(4):
        loss = (w - mean).square().sum()
        loss.backward()
        with torch.no_grad():
            mean = torch.log(w.detach() - i / 2)  # born
            shown = mean.mean()
train(w)
"""


def explained(body, folder):
    path = folder / "train.py"
    path.write_text(HEAD + textwrap.dedent(body))
    script = Script(bp.probe(nonfinite=True), str(path), ())
    script.run()
    return script.report(), path.read_text().splitlines()


@pytest.mark.parametrize(
    ("body", "name", "why"),
    [(TEACHER, "teacher", "0/0"), (DIVIDED, "scale", "division by zero"), (IN_A_FUNCTION, "mean", "log(0)")],
)
def test_a_value_that_the_iteration_before_computed_is_born_there(body, name, why, tmp_path):
    report, lines = explained(body, tmp_path)
    first = report.findings[0]
    assert first.kind == "born"
    assert first.headline.endswith(f": {why}")
    assert lines[first.source.line - 1].endswith("# born")
    assert f"first at {first.name!r} (train.py:{first.source.line})" in report.heading
    fact = f"an earlier iteration left it, where it came to no output yet; this one began with it in '{name}#0'"
    assert fact in first.facts


ATTRIBUTE = """
class Trainer:
    def __init__(self):
        self.mean = torch.zeros(())

    def step(self, w, x):
        out = w * (x - self.mean)
        out.sum().backward()

    def follow(self, x, n):
        self.mean = x.mean() / n  # born
trainer = Trainer()
for n in (2, 0, 1):
    trainer.step(w, torch.ones(2))
    trainer.follow(torch.ones(2), n)
"""


def test_what_was_left_in_an_attribute_is_a_fact(tmp_path):
    report, lines = explained(ATTRIBUTE, tmp_path)
    first = report.findings[0]
    at = next(number for number, line in enumerate(lines, 1) if line.endswith("# born"))
    assert first.kind == "unknown"
    (fact,) = [one for one in first.facts if one.startswith("an earlier iteration left it in self.mean: ")]
    assert fact.endswith(f"division by zero (train.py:{at})")


OTHERS = """
left = torch.ones(2)
for i in range(3):
    loss = (w * left).sum()
    loss.backward()
    left = torch.ones(2) / 0
    left = torch.ones(2)
    spare = w.detach() / 0
"""
GIVEN = """
import numpy
numpy.seterr(all="ignore")
for x in torch.from_numpy(numpy.sqrt(numpy.array([[1, 1], [1, -1]], "float32"))):
    loss = (w * x).sum()
    loss.backward()
    x = x / 0
"""


def test_what_comes_to_nothing_is_no_birth(tmp_path):
    report, _ = explained(OTHERS, tmp_path)
    assert report.ok


def test_what_the_loop_gives_is_not_what_an_earlier_iteration_left(tmp_path):
    report, lines = explained(GIVEN, tmp_path)
    first = report.findings[0]
    assert (first.kind, lines[first.source.line - 1].startswith("for x in")) == ("came_in", True)
    assert not any("an earlier iteration" in fact for fact in first.facts)
