"""Tracebacks have the lines of the program, and where one of our errors was raised: nothing between."""

import os
import re
import traceback

import pytest
import torch

import backprobe as bp
from backprobe.probe import function
from commands import forked


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 1)

    def forward(self, x):
        return self.lin(x).sum()


def divided(x):
    return 1 / x


def wrong(x):
    return x.nothing


def frames(error):
    """The functions that a traceback goes through, with the first word of their files: this one's are "test"."""
    steps = traceback.extract_tb(error.__traceback__)
    return [
        (step.name, "backprobe" in step.filename.split("/src/")[-1]) for step in steps if "torch" not in step.filename
    ]


def raised(kind, wrong):
    with pytest.raises(kind) as caught:
        wrong()
    return caught.value


@pytest.mark.parametrize("verb", [bp.probe, bp.check, bp.provoke, bp.noise_floor])
def test_an_error_of_the_program_has_its_own_lines_alone(verb):
    error = raised(AttributeError, lambda: verb(wrong)(torch.ones(())))
    assert [name for name, is_ours in frames(error) if not is_ours][-1] == "wrong"
    assert not any(is_ours for _, is_ours in frames(error)), traceback.format_exception(error)
    assert any("backprobe: raised while" in note for note in error.__notes__)


def test_an_error_inside_a_model():
    error = raised(RuntimeError, lambda: bp.probe(Net())(torch.ones(2)))
    assert [name for name, _ in frames(error)] == ["raised", "<lambda>", "forward"]


def test_an_error_of_ours_has_the_line_that_raised_it():
    error = raised(bp.BadOption, lambda: bp.probe(Net(), replace={"lin": 3})(torch.ones(3)))
    assert [is_ours for _, is_ours in frames(error)] == [False, False, False, True]


def test_a_name_that_is_not_there_is_two_frames():
    rec = bp.probe(divided)(1.0)
    assert len(frames(raised(bp.UnknownName, lambda: rec["u"]))) == 3, "this test's two, and where it was raised"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: bp.probe(divided)(),
        lambda: bp.probe(divided, of="loss")(torch.ones(3)),
        lambda: bp.probe(wrong, "re:(")(1.0),
    ],
)
def test_an_error_of_ours_is_told_once(wrong):
    """Without what it was known by inside: that is in its text."""
    text = "".join(traceback.format_exception(raised(bp.BackprobeError, wrong)))
    assert text.count("Traceback") == 1, text


def test_a_mistake_of_ours_keeps_every_frame(monkeypatch):
    monkeypatch.setattr(function, "leaves", None)
    error = raised(TypeError, lambda: bp.probe(divided)(1.0))
    assert sum(is_ours for _, is_ours in frames(error)) > 3


def plain(function):
    return function


@plain
def decorated(x):
    y = x * 2
    raise ValueError(y)


@plain
@torch.no_grad()
def decorated_twice(
    x,
):
    y = x * 2
    raise ValueError(y)


def around(x):
    @plain
    @plain
    def inner(t):
        y = t * 2
        raise ValueError(y)

    return inner(x)


@pytest.mark.parametrize("program", [decorated, decorated_twice, around])
def test_the_lines_of_a_decorated_function_are_those_of_the_file(program):
    """Its code begins at its first decorator, and is compiled anew without any."""

    def lines(error):
        return [
            (step.name, step.lineno)
            for step in traceback.extract_tb(error.__traceback__)
            if step.filename == __file__ and step.name not in ("raised", "<lambda>")
        ]

    bare = raised(ValueError, lambda: program(torch.ones(2)))
    assert lines(raised(ValueError, lambda: bp.probe(program)(torch.ones(2)))) == lines(bare)


FAILING = """\
import torch
import backprobe as bp

def f(x, w):
    u = x * w
    return u

def boom(x):
    raise LookupError("mine")

class Net(torch.nn.Module):
    def forward(self, x):
        return x.nothing

def test_a_name(): bp.probe(f)(1.0, 2.0)["nope"]  # here
def test_an_option(): bp.probe(f, strategy="no")  # here
def test_a_pattern(): bp.probe(f, "no")(1.0, 2.0)  # here
def test_what_is_no_recording(): bp.explain(3)  # here
def test_a_comparison(): bp.diff(3, 4)  # here
def test_a_folder(): bp.load("/nowhere/at/all")  # here
def test_a_run(): bp.open_run("/nowhere/at/all")  # here
def test_a_watch(tmp_path): bp.watch(Net(), tmp_path, every=0)  # here
def test_a_derivation(): bp.derive(bp.probe(f)(1.0, 2.0), "x")  # here
def test_two_programs(): bp.diff_live(f, boom)(1.0, 2.0)  # here
def test_a_check(): bp.check(boom)(1.0)  # here
def test_a_provocation(): bp.provoke(boom)(1.0)  # here

def test_a_guard():
    with bp.guard():
        torch.log(torch.zeros(2, requires_grad=True) * 0).sum().backward()  # here

def test_a_block():
    with bp.probe() as rec:
        Net()(torch.ones(2))  # here

def test_a_model_s_block():
    with bp.probe(Net()) as rec:
        raise LookupError("mine")  # here

def test_a_watched_model(tmp_path):
    model = torch.nn.Sequential(Net())
    with bp.watch(model, tmp_path / "run"):
        model(torch.ones(2))  # here
"""


def test_what_pytest_shows_of_a_test_that_fails(tmp_path):
    (tmp_path / "test_mine.py").write_text(FAILING)
    words = ["-m", "pytest", "-q", "--tb=long", "-p", "no:cacheprovider", "test_mine.py"]
    code, out, err = forked(*words, cwd=tmp_path, env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    shown = re.split(r"^_{3,} (test_\w+) _+$", out, flags=re.MULTILINE)
    tests = dict(zip(shown[1::2], shown[2::2], strict=True))
    assert set(tests) == set(re.findall(r"def (test_\w+)", FAILING)), out
    assert re.findall(r"^.*\bbackprobe/\w.*:\d+: ", out, re.MULTILINE) == []
    assert [name for name, text in tests.items() if not re.search(r"^> .*# here$", text, re.MULTILINE)] == []
