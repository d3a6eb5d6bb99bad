"""``backprobe diff``, and the assertion that fails with a report: a port is held to its reference."""

import json
import os
from pathlib import Path

import pytest
import torch

import backprobe as bp
from commands import forked, in_folder, invoked, printed, refused

TOY = """\
import torch

def f(x, w):
    u = x * w
    v = torch.sin(u)
    return v.sum()

def same(x, w):
    u = x * w
    v = torch.sin(u)
    return v.sum()

def wrong(x, w):
    u = x * w
    v = torch.cos(u)
    return v.sum()

def longer(x, w):
    u = x * w
    half = u.clone()
    v = torch.sin(u)
    return v.sum()

def noisy(x, w):
    u = x * w + torch.randn(3)
    return u.sum()

bias = torch.randn(3)

def drawn_at_import(x, w):
    return (x * w + bias).sum()
"""
ARGUMENTS = ("x=[1.0, 2.0, 3.0]", "w=2")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    with in_folder(tmp_path, monkeypatch, {"toy.py": TOY, "ported.py": TOY.replace("def f(", "def g(")}) as path:
        assert invoked("probe", "toy.py:f", *ARGUMENTS, "--save", "saved")[0] == 0
        yield path


@pytest.mark.parametrize("reference", ["toy.py:f", "saved"])
def test_a_divergence_is_printed_and_the_status_is_1(folder, reference):
    out = printed(invoked("diff", reference, "ported.py:wrong", *ARGUMENTS), 1)
    assert out.startswith("values differ first at 'v': ")
    assert "'v' differs (ported.py:15): relative error" in out and "\n    line:  v = torch.cos(u)\n" in out
    assert printed(invoked("diff", reference, "toy.py:same", *ARGUMENTS)).startswith("no difference in 5 values")


def test_json_is_the_data_of_the_report(folder):
    data = json.loads(printed(invoked("diff", "saved", "toy.py:wrong", *ARGUMENTS, "--json"), 1))
    assert data["ok"] is False and data["findings"][data["first"]]["name"] == "v"
    assert [pair["name"] for pair in data["pairs"]] == ["x", "w", "u", "v", "return"]


def test_what_could_not_be_compared_counts_with_strict_alone(folder):
    code, out, err = invoked("diff", "saved", "toy.py:longer", *ARGUMENTS)
    assert (code, "only in the second, and not compared: 'half'" in out) == (0, True)
    assert err == "not everything could be checked; with --strict the exit status would be 1\n"
    assert invoked("diff", "saved", "toy.py:longer", *ARGUMENTS, "--strict")[0] == 1


def test_both_functions_draw_the_same_random_numbers_and_share_their_module(folder):
    for name in ("noisy", "drawn_at_import"):
        assert printed(invoked("diff", f"toy.py:{name}", f"toy.py:{name}", *ARGUMENTS)).startswith("no difference")


def test_renames_layouts_and_noise(folder):
    (folder / "other.py").write_text(
        "import torch\n\ndef f(x, w):\n    p = x * w * (1 + 2 ** -23)\n"
        "    q = torch.sin(p * 1.00003).T\n    return q.sum()\n"
    )
    words = ("x=randn(2,3)", "w=2")
    assert invoked("probe", "toy.py:f", *words, "--save", "a")[0] == 0
    options = ("--rename", "u=p", "--rename", "v=q", "--layout", "q=1,0")
    out = printed(invoked("diff", "a", "other.py:f", *words, *options))
    assert out.startswith("no difference in 4 values"), out
    assert "values differ first at 'v'" in printed(
        invoked("diff", "a", "other.py:f", *words, *options[:-1], "q=T", "--noise", "a"), 1
    )


def unlike(z):
    s = z.exp()
    return s.sum()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["saved", "saved", "x=3"],
            "BadOption: x=3 is for a function, and saved and saved are saved recordings\n"
            "  asked: backprobe diff saved saved x=3\n",
        ),
        (["saved", "toy.py:wrnog"], "  next:  backprobe diff saved toy.py:wrong\n"),
        (["toy.py:ff", "saved"], "  next:  backprobe diff toy.py:f saved\n"),
        (["toy.py", "saved"], "  next:  backprobe diff toy.py:f saved x=3, for a function f in it;"),
        (["saved", "nowhere.py:f"], "  next:  backprobe diff saved toy.py:f x=3\n"),
        (["saved", "saved", "--rename", "u"], "BadOption: 'u' is not of the form A=B\n"),
        (["saved", "saved", "--rename", "u=v", "--rename", "u=x"], "BadOption: 'u' is given twice\n"),
        (["saved", "saved", "--rename", "u=z"], "NothingMatched: no name of the second recording is ':z'\n"),
        (["saved", "saved", "--layout", "u=S"], "  next:  --layout 'u=3,2,0,1', "),
        (["saved", "saved", "--noise", "toy.py"], "BadRecording: "),
        (["saved", "empty"], "BadRecording: "),
        (["saved", "unlike"], "  next:  backprobe diff A B --rename 'return=s', if these belong together"),
    ],
)
def test_bad_input(folder, words, said):
    (folder / "empty").mkdir()
    bp.probe(unlike, "s", of="s", cotangent=torch.ones(7))(torch.ones(7)).save("unlike")
    assert said in refused(invoked("diff", *words))


def test_of_a_tensor_a_random_cotangent_is_proposed(tmp_path, monkeypatch):
    """The gradient of a softmax for ones is zero, and a cut of it would not be seen."""
    weights = "def {}(x):\n    scores = x * 2\n    weights = (scores{}).softmax(-1)\n    return weights\n"
    text = "import torch\n" + weights.format("f", "") + weights.format("cut", ".detach() + 0 * x")
    with in_folder(tmp_path, monkeypatch, {"soft.py": text}):
        words = ["diff", "soft.py:f", "soft.py:cut", "x=randn(2,3)"]
        said = refused(invoked(*words))
        assert said.endswith("  next:  --cotangent 'randn(2, 3)'\n")
        assert "gradients differ first at" in printed(invoked(*words, "--cotangent", "randn(2, 3)"), 1)


# the assertion


def recorded(factor):
    def f(x):
        u = x * factor
        return torch.sin(u)

    return bp.probe(f)(torch.tensor(0.5))


def test_an_assertion_fails_with_the_report_as_its_text():
    bp.diff(recorded(2.0), recorded(2.0)).assert_ok(strict=True)
    report = bp.diff(recorded(2.0), recorded(3.0))
    with pytest.raises(AssertionError) as error:
        report.assert_ok()
    assert str(error.value) == str(report) and "'u' differs (" in str(report)


def test_an_assertion_that_is_strict_fails_where_not_all_could_be_compared():
    def longer(x):
        u = x * 2.0
        half = u * 0.5
        return torch.sin(u)

    report = bp.diff(recorded(2.0), bp.probe(longer)(torch.tensor(0.5)))
    assert report.ok and not report.complete
    report.assert_ok()
    with pytest.raises(AssertionError, match="only in the second, and not compared: 'half'"):
        report.assert_ok(strict=True)


def test_pytest_shows_the_report_and_the_line_of_the_test(tmp_path):
    (tmp_path / "test_port.py").write_text(
        "import torch\nimport backprobe as bp\n\n\ndef f(x):\n    u = x * 2\n    return u\n\n\n"
        "def g(x):\n    u = x * 3\n    return u\n\n\n"
        "def test_port():\n    bp.diff(bp.probe(f)(1.0), bp.probe(g)(1.0)).assert_ok()\n"
    )
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "test_port.py"]
    code, out, _ = forked(*command, cwd=tmp_path, env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
    assert code == 1
    assert "E       AssertionError: values differ first at 'u': 1 of 2 values differ" in out
    assert "test_port.py:16: AssertionError" in out and Path(bp.findings.report.__file__).name not in out
