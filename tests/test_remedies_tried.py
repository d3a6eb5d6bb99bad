"""Remedies are tried before they are printed, leave nothing behind, and make a patch that git takes."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import backprobe as bp
import explain_cases
from commands import invoked
from explain_cases import FUNCTIONS
from outside import note, noted

pytestmark = pytest.mark.filterwarnings("ignore:Converting a tensor with", "ignore:To copy construct from")
HEAD = "import math\nimport torch\n"


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Makes a module of a text, which tests import as any program is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def make(text, name="program"):
        Path(f"{name}.py").write_text(HEAD + text)
        sys.modules.pop(name, None)
        return __import__(name)

    yield make
    sys.modules.pop("program", None)


def given():
    return torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])


def edited(finding):
    """The text of the file of a finding, with its edits made."""
    text = finding.edits[0].text
    for start, end, instead in sorted({piece for edit in finding.edits for piece in edit.pieces}, reverse=True):
        text = text[:start] + instead + text[end:]
    return text


def tried(function, name=None):
    return [one.tried for one in bp.explain(bp.probe(function)(*given()), name)]


CURED = {
    "detach": ("    u = x * w\n    d = u.detach()  # c\n    return (d * w).sum()\n", "`d = u` at program.py:5"),
    "data": ("    u = x * w\n    return (u.data * w).sum()\n", "`return (u * w).sum()` at program.py:5"),
    "an expression in parentheses": (
        "    return ((x * w).detach() * w).sum()\n",
        "`return ((x * w) * w).sum()` at program.py:4",
    ),
    "a number": (
        "    u = (x * w).sum()\n    return (float(u * 2) * w).sum()\n",
        "`return ((u * 2) * w).sum()` at program.py:5",
    ),
    "several on one line": (
        "    u = (x * w).sum()\n    t = torch.tensor([u.item(), u.item()])\n    return (t * w).sum()\n",
        "`t = torch.stack([u, u])` at program.py:5",
    ),
    "a function of math": (
        "    u = (x * w).sum()\n    return w.sum() * math.sin(u)\n",
        "`return w.sum() * torch.sin(u)` at program.py:5",
    ),
    "a mode": (
        "    with torch.no_grad():\n        u = x * w\n    return (u * w).sum()\n",
        "`with torch.enable_grad():` at program.py:4",
    ),
    "a statement": (
        "    u = x * w\n    u.detach_()\n    return (u * w).sum()\n",
        "without `u.detach_()` at program.py:5",
    ),
    "a derivative": (
        "    (s,) = torch.autograd.grad((x**3 * w).sum(), x)\n    return (s * w).sum()\n",
        "`(s,) = torch.autograd.grad((x**3 * w).sum(), x, create_graph=True)` at program.py:4",
    ),
    "a cut behind a cut": (
        "    u = x * w\n    a = u.detach().numpy()\n    d = torch.from_numpy(a * 2)\n    return (d * w).sum()\n",
        "`a = u` at program.py:5 and `d = (a * 2)` at program.py:6",
    ),
}


@pytest.mark.parametrize("cause", CURED)
def test_a_remedy_says_what_it_cured(program, cause):
    body, edit = CURED[cause]
    (sentences,) = tried(program(f"def f(x, w):\n{body}").f)
    assert sentences == (f"{edit}: the gradient of 'x' arrives; the output is the same",)


@pytest.mark.parametrize("cause", CURED)
def test_the_program_is_as_it_was(program, cause):
    body, _ = CURED[cause]
    f = program(f"def f(x, w):\n{body}").f
    code, before = f.__code__, f(*map(torch.Tensor.requires_grad_, given())).detach()
    bp.explain(bp.probe(f)(*given()))
    assert f.__code__ is code
    assert torch.equal(f(*map(torch.Tensor.requires_grad_, given())).detach(), before)


@pytest.mark.parametrize("cause", CURED)
def test_the_edited_text_has_the_gradient(program, cause):
    # By PyTorch alone: what the finding says is so.
    body, _ = CURED[cause]
    module = program(f"def f(x, w):\n{body}")
    (finding,) = bp.explain(bp.probe(module.f)(*given()))
    Path("other.py").write_text(edited(finding))
    names = {}
    exec(Path("other.py").read_text(), names)
    x, w = (value.requires_grad_() for value in given())
    names["f"](x, w).backward()
    assert x.grad.abs().sum() > 0


def test_a_model_and_how_many_of_its_gradients_arrive(program):
    text = (
        "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a, self.b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)\n"
        "        self.drop = torch.nn.Dropout()\n"
        "    def forward(self, x):\n        return self.b(self.drop(self.a(x)).detach()).sum()\n"
    )
    torch.manual_seed(0)
    net = program(text).Net()
    state = {name: value.clone() for name, value in net.state_dict().items()}
    drawn = torch.get_rng_state()
    rec = bp.probe(net)(torch.ones(4, 2))
    after = torch.get_rng_state()
    (finding,) = bp.explain(rec)
    assert finding.tried == (
        "`return self.b(self.drop(self.a(x))).sum()` at program.py:9: 2 of 2 missing gradients arrive; "
        "the output is the same",
    )
    assert not torch.equal(drawn, after)
    assert torch.equal(torch.get_rng_state(), after)
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert all(one.grad is None for one in net.parameters())


def test_of_two_cuts_in_a_line_each_has_its_own_remedy(program):
    f = program("def f(x, w, b):\n    return (x.detach() * w.data + b).sum()\n").f
    found = {one.kind: one.tried[0] for one in bp.explain(bp.probe(f)(*given(), torch.ones(2)))}
    assert found["detach"].startswith("`return (x * w.data + b).sum()` at program.py:4: 1 of 2 ")
    assert found["data"].startswith("`return (x.detach() * w + b).sum()` at program.py:4: 1 of 2 ")


def test_a_decorator_is_left_out_in_its_module_for_the_run(program):
    module = program(
        "@torch.no_grad()\ndef half(v):\n    return v / 2\n\n\ndef f(x, w):\n    return (half(x * w) * w).sum()\n"
    )
    held = module.half
    (sentences,) = tried(module.f)
    assert sentences == (
        "without `@torch.no_grad()` at program.py:3: the gradient of 'x' arrives; the output is the same",
    )
    assert module.half is held


def test_a_change_of_the_output_is_said_and_makes_no_patch(program):
    f = program("def f(x, w):\n    u = x * w\n    return (torch.tensor(u, dtype=torch.half) * 1.001 * w).sum()\n").f
    (finding,) = bp.explain(bp.probe(f)(*given()))
    assert "the output changes by up to " in finding.tried[0]


def test_what_cures_nothing_is_not_printed(program):
    module = program(
        "def cut(v):\n    return v.detach()\n\n\ndef f(x, w):\n    return (cut(x * w) * 0 * w).sum() + w.sum()\n"
    )
    (finding,) = bp.explain(bp.probe(module.f)(*given()), "x")
    assert (finding.tried, finding.remedy) == ((), "")  # the gradient that arrives is 0 everywhere


def test_what_no_edit_stands_for_keeps_its_words(program):
    f = program("def f(x, w):\n    return (torch.argmax(x * w) * w).sum()\n").f
    (finding,) = bp.explain(bp.probe(f)(*given()))
    assert (finding.tried, finding.edits) == (("with this line bridged, the gradient of 'x' arrives",), ())
    assert finding.remedy


def test_a_remedy_that_raises_an_error_at_its_line_is_not_printed(program):
    f = program(
        "import ctypes\nimport ctypes.util\n\nlibm = ctypes.CDLL(ctypes.util.find_library('m'))\n"
        "libm.erfc.argtypes, libm.erfc.restype = [ctypes.c_double], ctypes.c_double\n\n\n"
        "def f(x, w):\n    z = (x * w).detach()\n    p = torch.tensor([libm.erfc(value) for value in z])\n"
        "    return (p * w).sum()\n"
    ).f
    first, second = bp.explain(bp.probe(f)(*given()))
    assert (first.kind, second.kind, second.remedy) == ("detach", "copied", "")


def test_nothing_runs_where_experiments_are_off(program):
    module = program("RUNS = []\n\n\ndef f(x, w):\n    RUNS.append(1)\n    return (x.detach() * w).sum()\n")
    rec = bp.probe(module.f)(*given())
    assert not bp.explain(rec, experiments=False).findings[0].tried
    assert not bp.explain(rec, seconds=0.0).findings[0].tried
    assert len(module.RUNS) == 1
    assert bp.explain(rec).findings[0].tried


def test_a_side_effect_ends_it_with_a_note(program):
    f = program("def f(x, w):\n    open('log', 'a').close()\n    return (x.detach() * w).sum()\n").f
    rec = bp.probe(f)(*given())
    Path("log").unlink()
    report = bp.explain(rec, "x")
    assert report.notes[-1].startswith("remedies were not tried: f opens ")
    assert not report.findings[0].tried
    assert not Path("log").exists()


def test_a_file_that_has_changed_since_is_not_edited(program):
    f = program("def f(x, w):\n    u = x * w\n    return (u.detach() * w).sum()\n").f
    rec = bp.probe(f)(*given())
    Path("program.py").write_text(HEAD + "def f(x, w):\n    u = x + w\n    return (u.detach() * w).sum()\n")
    report = bp.explain(rec)
    assert not report.findings[0].edits
    assert report.notes[-1] == (
        "remedies were not tried: the file is not the one that the running functions were made of"
    )


FORMS = {
    "a lambda": "f = lambda x, w: (x.detach() * w).sum()\n",
    "in one line": "def f(x, w): return (x.detach() * w).sum()\n",
    "an object": "class F:\n    def __call__(self, x, w): return (x.detach() * w).sum()\n\n\nf = F()\n",
    "a static method": "class F:\n    @staticmethod\n"
    "    def f(x, w):\n        return (x.detach() * w).sum()\n\n\nf = F.f\n",
    "a closure": "def make(k):\n"
    "    def f(x, w):\n        return (x.detach() * w * k).sum()\n    return f\n\n\nf = make(2)\n",
    "beneath a decorator": "from functools import wraps\n\n\ndef same(g):\n    @wraps(g)\n"
    "    def other(*args):\n        return g(*args)\n    return other\n\n\n@same\ndef f(x, w):\n"
    "    return (x.detach() * w).sum()\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_function_of_each_form(program, form):
    (finding,) = bp.explain(bp.probe(program(FORMS[form]).f)(*given()))
    assert finding.tried[0].endswith("the gradient of 'x' arrives; the output is the same")


def test_many_runs_end(program):
    count = "RUNS = []\n\n\ndef f(x, w):\n    RUNS.append(1)\n    u = x * w\n"
    body = "".join(f"    u = torch.sign(u.detach()) + {n}\n" for n in range(8))
    module = program(f"{count}{body}    return (u * w).sum()\n")
    rec = bp.probe(module.f)(*given())
    bp.explain(rec, "x")
    assert len(module.RUNS) < 12


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_git_applies_the_patch_and_the_cause_is_gone(tmp_path, monkeypatch, end, last):
    monkeypatch.chdir(tmp_path)
    text = (
        "import torch\n\n\n@torch.no_grad()\ndef half(v):\n    return v / 2\n\n\ndef f(x, w):\n    u = x * w  # é\n"
        "    d = (\n        u\n        .detach()\n        .exp()\n    )\n"
        "    with torch.no_grad():  # why\n        e = x * 2\n"
        "    return (d * w).sum() + e.sum() + half(x).sum()"
    )
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.py").write_bytes((text + "\n" * last).replace("\n", end).encode())
    subprocess.run(["git", "init", "-q", "."], check=True)
    asked = ("explain", "sub/a.py:f", "x=[1.0, 2.0]", "w=[3.0, 4.0]")
    status, out, err = invoked(*asked, "--patch", "fix.diff")
    assert (status, "fix.diff has 3 edits: git apply fix.diff\n") == (
        1,
        err[-len("fix.diff has 3 edits: git apply fix.diff\n") :],
    )
    assert out.count("tried: ") == 3
    subprocess.run(["git", "apply", "fix.diff"], check=True)
    after = (tmp_path / "sub" / "a.py").read_bytes().decode()
    assert after.replace(end, "\n").rstrip("\n") == text.replace("@torch.no_grad()\n", "").replace(
        "        .detach()\n", ""
    ).replace("torch.no_grad()", "torch.enable_grad()")
    status, out, err = invoked(*asked)
    assert (status, err) == (0, "")


def test_the_command_that_is_printed_applies_it_from_another_folder(tmp_path, monkeypatch):
    (tmp_path / "sub folder").mkdir()
    (tmp_path / "a.py").write_text("import torch\ndef f(x, w):\n    return (x.detach() * w).sum()\n")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.chdir(tmp_path / "sub folder")
    _, _, err = invoked("explain", "../a.py:f", "x=1.0", "w=2.0", "--patch", "fix.diff")
    assert err == "fix.diff has 1 edit: git -C .. apply 'sub folder/fix.diff'\n"
    subprocess.run(err.partition(": ")[2], shell=True, check=True)
    assert (tmp_path / "a.py").read_text() == "import torch\ndef f(x, w):\n    return (x * w).sum()\n"


def test_a_patch_is_not_written_over_or_without_a_remedy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.py").write_text("import torch\ndef f(x, w):\n    return (x * w).sum()\n")
    asked = ("explain", "a.py:f", "x=[1.0, 2.0]", "w=[3.0, 4.0]", "--patch", "fix.diff")
    status, _, err = invoked(*asked)
    assert (status, err) == (0, "fix.diff is not written: no remedy was found by trying\n")
    assert not Path("fix.diff").exists()
    Path("fix.diff").write_text("mine")
    status, _, err = invoked(*asked)
    assert status == 2
    assert "fix.diff is there already, and is not written over" in err
    assert "--patch fix-2.diff" in err
    assert Path("fix.diff").read_text() == "mine"
    bp.probe(lambda x: x * 2)(torch.ones((), requires_grad=True)).save("a.recording")
    status, _, err = invoked("explain", "--patch", "fix-2.diff", "a.recording")
    assert (status, "found: a recording, which cannot run again" in err) == (2, True)


def test_the_catalogue(tmp_path):
    # Each remedy is written into the catalogue and judged by PyTorch alone: 31 of 54 causes have one.
    proven = 0
    for case in FUNCTIONS:
        report = bp.explain(bp.probe(case.program)(*(one.requires_grad_() for one in given())), case.asked)
        for finding in (one for one in report if one.edits):
            file = tmp_path / f"edited_{case.name}.py"
            file.write_text(edited(finding))
            names = {"__name__": "edited", "__file__": explain_cases.__file__}
            exec(compile(file.read_text(), str(file), "exec"), names)
            (x, w), before = (one.requires_grad_() for one in given()), torch.get_rng_state()
            y = names[case.name](x, w)
            y.backward()
            assert x.grad.abs().sum() > 0
            torch.set_rng_state(before)
            assert torch.equal(y, case.program(x, w))
            proven += 1
    assert proven == 31


def test_remedies_for_nan_run_no_more_often_than_they_may():
    def rooted(x):
        note()
        return torch.sqrt(x).sum()

    noted()
    rec = bp.probe(rooted, nonfinite=True)(torch.zeros(2))
    for runs, most, is_tried in ((1, 1, False), (2, 3, True)):
        (found,) = bp.explain(rec, runs=runs).of_kind("born_backward")
        assert (len(noted()) <= most, bool(found.tried)) == (True, is_tried), runs
