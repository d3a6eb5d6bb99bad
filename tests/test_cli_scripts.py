"""Whole scripts for ``probe``, ``draw``, ``derive`` and ``health``: which output is meant, and how scripts end."""

import pytest

from commands import invoked, refused

TWO = """\
import torch
from torch.autograd import grad
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = (x**3).sum()
(g,) = grad(y, x, create_graph=True)
p = g.norm()
(h,) = grad(p, x)
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda text: (tmp_path / "two.py").write_text(text)


@pytest.mark.parametrize(
    "words", [["draw", "two.py", "two.svg"], ["derive", "two.py", "x"], ["derive", "saved", "x"], ["health", "saved"]]
)
def test_of_several_outputs_one_is_named(script, words, tmp_path):
    script(TWO)
    assert invoked("probe", "--partials", "true", "--save", "saved", "two.py")[0] == 0
    verb, *others = words
    err = refused(invoked(*words))
    assert err.startswith("BadOption: the recording is of several outputs: y, p\n")
    assert err.endswith(f"  next:  backprobe {verb} --of p {' '.join(others)}\n")
    code, out, err = invoked(verb, "--of", "p", *others)
    assert (code, err) == (0, "")


def test_the_table_of_one_output(script):
    script(TWO)
    code, out, err = invoked("probe", "--of", "y", "two.py")
    assert (code, err) == (0, "") and "gradients are of y\n" in out and "[3, 12]" in out
    err = refused(invoked("probe", "--of", "z", "two.py"))
    assert err == (
        "BadOption: no output is called 'z'\n  asked: backprobe probe --of z two.py\n  found: y, p\n"
        "  next:  backprobe probe --of p two.py\n"
    )


def test_health_judges_each_output(script):
    script(TWO)
    code, out, err = invoked("health", "two.py")
    assert (code, err) == (0, "") and out.startswith("no problems found")


@pytest.mark.parametrize("end", ["", "import sys\nsys.exit()\n", "import sys\nsys.exit(0)\n"])
def test_a_script_that_exits_is_over(script, end, tmp_path):
    script(TWO + end)
    code, out, err = invoked("draw", "--of", "p", "two.py", "two.svg")
    assert (code, out) == (0, "the circuit: two.svg\n") and (tmp_path / "two.svg").exists()
    assert "interrupted" not in invoked("explain", "two.py")[1]


HELPING = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=0.1)
parser.parse_args()
"""


@pytest.mark.parametrize("verb", ["explain", "probe", "health"])
def test_a_script_that_prints_its_help_ends_as_by_itself(script, verb):
    script(HELPING + TWO)
    code, out, err = invoked(verb, "two.py", "--help")
    assert code == 0 and "--rate" in out and "BadOption" not in err


def test_a_script_that_exits_before_any_gradient_is_still_refused(script):
    script("import sys\nimport torch\nsys.exit()\n" + TWO)
    assert "no gradient of PyTorch, TensorFlow or JAX was seen" in refused(invoked("explain", "two.py"))


def test_a_script_that_fails_keeps_its_status(script):
    script(TWO + "import sys\nsys.exit(7)\n")
    code, out, err = invoked("probe", "two.py")
    assert code == 7 and "gradients are of y, p" in out


def test_the_script_s_own_arguments(script):
    script("import sys\nassert sys.argv[1:] == ['--lr', '0.1']\n" + TWO)
    assert invoked("probe", "two.py", "--lr", "0.1")[0] == 0
