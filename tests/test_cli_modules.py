"""``-m MODULE`` in the place of a script, as ``python -m`` has it, and whose the words before and behind it are."""

import json
import os
import re
import subprocess
import sys

import pytest

from commands import COMMAND, DISTRIBUTED, forked, in_folder, invoked, printed, refused
from sampled import sampled

STEP = """\
import json, os, pickle, sys
import torch

class Own: pass

torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    loss = (model(torch.ones(4, 2)) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
assert type(pickle.loads(pickle.dumps(Own()))) is Own
"""
STATE = """\
import json, sys
own = vars(sys.modules["__main__"])
print(json.dumps({
    "is own": own is globals(), "argv": sys.argv, "path": sys.path[0], "modules": "package.train" in sys.modules,
    **{name: str(own.get(name)) for name in ("__name__", "__package__", "__file__", "__cached__")},
    "spec": getattr(own["__spec__"], "name", None), "loader": type(own["__loader__"]).__name__,
}))
"""
FILES = {
    "package/__init__.py": "order = ['package']\n",
    "package/train.py": STATE
    + STEP.replace("torch.ones", "from_here.ones").replace(
        "import torch\n", "import torch\nfrom . import from_here\n", 1
    ),
    "package/from_here.py": "from torch import ones\n",
    "package/__main__.py": STATE + STEP,
    "package/deep/__init__.py": "",
    "package/deep/nested.py": "from ..from_here import ones\n" + STATE + STEP,
    "spaces/lone.py": STATE + "from . import other\n" + STEP,
    "spaces/other.py": "",
    "top.py": STATE + STEP,
    "broken/__init__.py": "import nowhere_at_all\n",
    "broken/train.py": "",
    "raising/__init__.py": "raise LookupError('mine')\n",
    "raising/train.py": "",
    "train.py": STEP + "print(sys.argv[1:])\n",
}
MODULES = ["package.train", "package", "package.__main__", "package.deep.nested", "spaces.lone", "top"]
VERBS = ["explain", "health", "probe", "watch"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    with in_folder(tmp_path, monkeypatch, FILES) as made:
        before = sys.argv, sys.modules["__main__"]
        yield made
        assert (sys.argv, sys.modules["__main__"]) == before, "nothing is left behind"
        for name in [
            name for name in sys.modules if name.partition(".")[0] in ("package", "spaces", "broken", "raising")
        ]:
            del sys.modules[name]  # namespace packages have no file


def state(out):
    return json.loads(next(line for line in out.splitlines() if line.startswith("{")))


@pytest.mark.parametrize("module", sampled(MODULES, "package.train", "package", "spaces.lone"))
def test_a_module_runs_as_python_runs_it(folder, module):
    words = ["-m", module, "--lr", "0.1", "-m", "x", "--", "--steps"]
    alone = printed(forked(*words, imported=DISTRIBUTED, cwd=folder))
    path = list(sys.path)
    for verb in VERBS:
        code, out, err = invoked(verb, *words)
        assert sys.path == path, "nothing is left behind"
        assert (code, state(out)) == (0, state(alone)), (verb, out, err)


def test_the_installed_command_and_python_m(folder):
    for words in ([COMMAND], ["-m", "backprobe"]):
        out = printed(forked(*words, "explain", "-m", "package.train", "a", imported=DISTRIBUTED, cwd=folder))
        found = state(out)
        assert found["argv"] == [f"{folder}/package/train.py", "a"] and found["path"] == str(folder)
        assert "all 2 parameters got a gradient" in out
        assert "backprobe explain --steps 10 -m package.train a looks at up to ten" in out


def test_what_is_said_to_type_next_works(folder):
    out = invoked("explain", "-m", "package.train", "--lr", "0.1")[1]
    typed = re.search(r"not looked at: backprobe (.*) looks at up to ten", out)[1]
    assert typed == "explain --steps 10 -m package.train --lr 0.1"
    assert "all 3 iterations of the script that run backward() were looked at" in invoked(*typed.split())[1]


def test_draw_and_derive_take_modules(folder):
    assert invoked("draw", "--depth", "1", "-m", "package.train", "x.svg", "--depth")[0] == 0
    assert (folder / "x.svg").exists()
    code, out, _ = invoked("derive", "-m", "package.train", "loss", "v")
    assert code == 0 and state(out)["argv"][1:] == ["v"] and "∂loss/∂loss = 1" in out


def test_a_watched_module_has_a_folder_of_its_name(folder):
    for module, name in (("package.train", "train.run"), ("package", "package.run")):
        code, _, err = invoked("watch", "-m", module)
        assert (code, err) == (0, f"watched Linear for 3 steps: backprobe report {name}/Linear\n")
    err = refused(invoked("watch", "-m", "package.train"))
    assert err.endswith(
        "  next:  backprobe watch --folder train-2.run -m package.train, or backprobe watch --append -m package.train\n"
    )


REFUSED = {
    "pakage.train": [
        "there is no module 'pakage.train' that runs",
        "found: in pakage: no modules",
        "change into the folder",
    ],
    "package.other": ["found: in package: deep, from_here, train", "next:  backprobe explain -m package."],
    "package.trian": [
        "there is no module 'package.trian'",
        "found: in package: deep, from_here, train",
        "why:   a module is looked for in the current folder, then as by any import;",
        "next:  backprobe explain -m package.train\n",
    ],
    "tpo": ["found: in the current folder: ", "next:  backprobe explain -m top\n"],
    "package.deep": [
        "a package runs by its __main__.py",
        "found: in package.deep: nested",
        "next:  backprobe explain -m package.deep.nested\n",
    ],
    "package/train.py": [
        "found: the file package/train.py, which runs without -m",
        "next:  backprobe explain -m package.train\n",
    ],
    "train.py": ["next:  backprobe explain -m train\n"],
    ".train": ["there is no module '.train'"],
    "itertools": ["found: built-in, no file of source"],
    "spaces.other.more": ["found: in spaces.other: no modules"],
}


@pytest.mark.parametrize("module", REFUSED)
def test_a_module_that_is_not_there(folder, module):
    err = refused(invoked("explain", "-m", module))
    assert f"  asked: backprobe explain -m {module}\n" in err
    assert [said for said in REFUSED[module] if said not in err] == [], err


@pytest.mark.parametrize(
    ("module", "said"), [("broken.train", "No module named 'nowhere_at_all'"), ("raising.train", "LookupError: mine")]
)
def test_what_a_package_raises_comes_out(folder, module, said):
    err = refused(invoked("explain", "-m", module), 3)
    assert said in err and f"{module.partition('.')[0]}/__init__.py" in err
    assert "backprobe" not in err and "importlib" not in err


def test_without_a_module(folder):
    assert refused(invoked("explain", "-m")).startswith("BadOption: Option '-m' requires an argument\n")
    err = refused(invoked("explain", "toy.py:f", "-m", "top"))
    assert err.startswith("BadOption: -m is in the place of a script, a function or a recording\n")


# whose a word is


def argv(out):
    return next(line for line in reversed(out.splitlines()) if line.startswith("["))


WORDS = [
    (["--steps", "5"], "--steps", "--steps 5 train.py"),
    (["--steps=5", "a"], "--steps", "--steps=5 train.py a"),
    (["a", "--nonfinite", "-s", "x", "--lr", "1"], "--nonfinite, -s", "--nonfinite -s x train.py a --lr 1"),
    (["--help"], "--help", "--help train.py"),
]


@pytest.mark.parametrize(("words", "names", "typed"), WORDS)
def test_words_behind_a_script_are_its_own(folder, words, names, typed):
    code, out, err = invoked("explain", "--steps", "9", "train.py", *words)
    assert code == 0 and argv(out) == str(words)
    assert (
        err
        == f"backprobe: {names} was passed to train.py; to pass it to backprobe: backprobe explain --steps 9 {typed}\n"
    )
    code, out, err = invoked("explain", "--steps", "9", "train.py", "--", *words)
    assert (code, err, argv(out)) == (0, "", str(words))


def test_a_second_separator_is_the_script_s(folder):
    for verb in ("explain", "watch"):
        code, out, err = invoked(verb, *["--steps", "9"] * (verb == "explain"), "train.py", "a", "--", "--every")
        assert code == 0 and argv(out) == "['a', '--', '--every']" and "passed to" not in err


def test_a_line_of_the_first_process_alone(folder, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert invoked("explain", "--steps", "9", "train.py", "--steps", "5")[2] == ""


def test_an_option_between_the_script_and_the_drawing(folder):
    assert refused(invoked("draw", "train.py", "--depth", "1", "x.svg", "--lr", "2")) == (
        "BadOption: --depth stands behind train.py\n"
        "  asked: backprobe draw train.py --depth 1 x.svg --lr 2\n"
        "  why:   of a script, options of ours come before it, and every word behind it is its own\n"
        "  next:  backprobe draw --depth 1 train.py x.svg --lr 2\n"
    )
    assert invoked("draw", "--depth", "1", "train.py", "x.svg", "--lr", "2")[0] == 0
    assert invoked("draw", "train.py", "--", "x.svg", "--depth")[0] == 0


def test_an_option_of_the_script_before_it(folder):
    err = refused(invoked("explain", "--lr", "0.1", "train.py"))
    assert err.startswith("BadOption: No such option '--lr'")


def test_options_of_a_function_stand_anywhere(folder):
    (folder / "toy.py").write_text("import torch\ndef f(x):\n    y = x * 2\n    return y\n")
    before = invoked("explain", "--nonfinite", "toy.py:f", "x=1.0")
    assert before[0] == 0 and before == invoked("explain", "toy.py:f", "x=1.0", "--nonfinite")
    assert before == invoked("explain", "toy.py:f", "--nonfinite", "--", "x=1.0")
    assert invoked("probe", "toy.py:f", "x=1.0", "--save", "rec", "--partials", "true")[0] == 0
    assert invoked("derive", "rec", "x", "--of", "return") == invoked("derive", "--of", "return", "rec", "x")
    assert os.path.isdir("rec")


PROCESSES = """\
import sys
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
net = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    loss = net(torch.randn(4, 2)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.sweep
def test_torchrun_starts_the_command_line(folder):
    (folder / "processes.py").write_text(PROCESSES)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "backprobe"]
    done = subprocess.run(
        [*torchrun, "explain", "processes.py", "--lr", "1"], cwd=folder, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("all 2 parameters got a gradient") == 2
    typed = "torchrun --nproc-per-node 2 -m backprobe explain --steps 10 processes.py --lr 1"
    assert done.stdout.count(f"{typed} looks at up to ten") == 2
