"""The command line: what a user's file, arguments and mistakes give."""

import functools
import importlib.metadata
import inspect
import os
import re
import shlex
import subprocess
import sys

import pytest

import backprobe as bp
from backprobe.cli import main
from commands import COMMAND, WRONG, forked, in_folder, invoked, printed, python, refused
from drawn import Drawn

TOY = """\
import torch
import helper

K = 3

def f(x, w, b):
    u = x * w
    v = u + b
    return torch.relu(v)

def vector(x):
    y = x * 2
    return y

def pair(x):
    a = x * 2
    b = x * 3
    return a, b

def pick(x, i, scale=1.0):
    return x[i].sum() * scale

def boom(x):
    y = x * 2
    raise LookupError("mine")

def missing_key(x):
    return {}["nothing"]

def opened(x):
    return open("/nowhere/at/all")

def helped(x):
    return helper.triple(x)

def nothing():
    return torch.ones(1)

class Net:
    def loss(x):
        s = x**2
        return s
"""
HELPER = "def triple(x):\n    t = x * 3\n    return t\n"


ARGUMENTS = ("x=3", "w=2", "b=1")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a user's file, and a Python that forgets afterwards what was imported from it."""
    files = {"toy.py": TOY, "helper.py": HELPER, "pure.py": "def f(x):\n    y = x * x\n    return y\n"}
    with in_folder(tmp_path, monkeypatch, files) as path:
        yield path


def ran(*words):
    return invoked("probe", *words)


def shown(*words):
    """Standard output of a run that succeeds, split into words by line."""
    return [line.split() for line in printed(ran(*words)).splitlines()]


def command(*words, **options):
    """The installed command, in a process of its own."""
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, timeout=600, **options)


def test_a_real_run_from_end_to_end(folder):
    done = command("probe", "toy.py:f", "x=3", "w=2", "b=1", "--save", "runs/first", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "name    value  gradient  source\n"
        "x       3      2         toy.py:6  def f(x, w, b):\n"
        "w       2      3         toy.py:6  def f(x, w, b):\n"
        "b       1      1         toy.py:6  def f(x, w, b):\n"
        "u       6      1         toy.py:7  u = x * w\n"
        "v       7      1         toy.py:8  v = u + b\n"
        "return  7      1         toy.py:9  return torch.relu(v)\n"
        "gradients are of return\n"
    )
    loaded = bp.load(folder / "runs" / "first")
    assert str(loaded) == done.stdout.rstrip("\n")
    assert loaded["u"].source.file == str(folder / "toy.py")


def test_what_the_function_raises_is_shown_as_python_shows_it(folder):
    """Decided: the program's own error keeps its type and traceback, with the user's line and a note of where."""
    lines = refused(forked(COMMAND, "probe", "toy.py:boom", "x=3.0", cwd=folder), 3).splitlines()
    at = TOY.splitlines().index('    raise LookupError("mine")') + 1
    assert lines[0] == "Traceback (most recent call last):"
    assert f'  File "{folder / "toy.py"}", line {at}, in boom' in lines
    assert '    raise LookupError("mine")' in lines
    assert lines[-2:] == [
        "LookupError: mine",
        f"backprobe: raised while running boom under a probe; the last name bound was 'y' (toy.py:{at - 1}: y = x * 2)",
    ]


# options


def test_select(folder):
    for words, names in (("--select u -s v", "u v return gradients"), ("-s !v -s !x", "w b u return gradients")):
        assert [row[0] for row in shown("toy.py:f", *ARGUMENTS, *words.split())[1:]] == names.split()


def test_of(folder):
    table = shown("toy.py:pair", "x=1", "--of", "1")
    assert table[1][:3] == ["x", "1", "3"]
    assert table[2][:3] == ["a", "2", "not_connected:"]


def test_several_outputs(folder):
    table = shown("toy.py:pair", "x=1", "--of", "0", "--of", "1")
    assert table[0][:4] == ["name", "value", "0", "1"]
    assert table[1][:4] == ["x", "1", "2", "3"]


def test_wrt(folder):
    table = shown("toy.py:f", "x=3.0", "w=2.0", "b=1.0", "--wrt", "x", "--wrt", "b")
    assert [row[:3] for row in table[1:3]] == [["x", "3", "2"], ["b", "1", "1"]]
    assert table[-2] == ["not", "tensors:", "w", "=", "2.0"]


def test_cotangent(folder):
    assert shown("toy.py:f", "x=3", "w=2", "b=1", "--cotangent", "-2")[1][:3] == ["x", "3", "-4"]
    err = refused(ran("toy.py:vector", "x=[1.0, 2]", "--cotangent", "ones"))
    assert err == (
        "BadOption: 'ones' is not a value that can be read\n"
        "  asked: cotangent=ones\n"
        "  found: a name or an expression; of functions randn, zeros, ones can be called, with sizes\n"
        "  next:  cotangent=3.0, cotangent='[1.0, 2.0]' or cotangent='randn(2, 3)' for a tensor, or "
        "cotangent=@file.npy\n"
    )


def test_backend(folder):
    assert shown("pure.py:f", "x=3", "--backend", "torch")[1][:3] == ["x", "3", "6"]
    done = command("probe", "pure.py:f", "x=3", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("NoBackend: cannot infer the framework from the arguments\n")


def test_save_refuses_what_is_there_and_what_cannot_be_made(folder):
    (folder / "letter").write_text("dear")
    for target, text in (
        ("letter", "BadOption: letter is not a recording, so it is not overwritten\n"),
        ("letter/rec", "BadOption: the recording cannot be written to letter/rec\n"),
    ):
        code, out, err = ran("toy.py:f", "x=3", "w=2", "b=1", "--save", target)
        assert code == 2
        assert out.startswith("name "), "the table is printed all the same"
        assert err.startswith(text)
    assert (folder / "letter").read_text() == "dear"


# the function


def test_a_method_a_helper_beside_the_file_and_a_path(folder, monkeypatch):
    assert [row[:3] for row in shown("toy.py:Net.loss", "x=3")[1:3]] == [["x", "3", "6"], ["s", "9", "1"]]
    monkeypatch.chdir("/")
    table = shown(f"{folder}/toy.py:helped", "x=2")
    assert [row[:3] for row in table[1:6]] == HELPED


HELPED = [["x", "2", "3"], ["=", "/triple:x"], ["return", "6", "1"], ["=", "/triple:t"], ["=", "/triple:return"]]


def test_a_file_is_imported_and_not_run_as_a_program(folder):
    (folder / "script.py").write_text(
        "import torch\ndef f(x):\n    return x * 2\nif __name__ == '__main__':\n    raise SystemExit('ran')\n"
    )
    assert shown("script.py:f", "x=1")[1][:3] == ["x", "1", "2"]


def test_a_file_named_like_a_module_does_not_take_its_place(folder):
    import random

    (folder / "random.py").write_text("import torch\ndef f(x):\n    u = x * 2\n    return u\n")
    assert shown("random.py:f", "x=1")[2][:3] == ["u", "2", "1"]
    assert sys.modules["random"] is random


def test_a_misspelled_function(folder):
    assert refused(ran("toy.py:vektor", "x=1")) == (
        "BadOption: toy.py has no function 'vektor'\n"
        "  asked: backprobe probe toy.py:vektor\n"
        "  found: f, vector, pair, pick, boom, missing_key, opened, helped, nothing, Net\n"
        "  next:  backprobe probe toy.py:vector\n"
    )
    (folder / "empty.py").write_text("")
    assert refused(ran("empty.py:f")) == (
        "BadOption: empty.py has no function 'f'\n  asked: backprobe probe empty.py:f\n  found: no functions\n"
        "  next:  define a function in empty.py\n"
    )


@pytest.mark.parametrize(
    ("words", "found"),
    [("nowhere.py:f", "no file 'nowhere.py'"), (":f", "no file ''"), ("", "no colon"), (".:f", "no file '.'")],
)
def test_no_such_file(words, found, folder):
    assert refused(ran(words, "x=1")) == (
        f"BadOption: {words!r} does not name a function in a file\n"
        f"  asked: backprobe probe {shlex.quote(words)}\n"
        f"  found: {found}\n"
        "  next:  backprobe probe toy.py:f x=3\n"
    )


def test_a_whole_script(folder):
    assert refused(ran("toy.py", "x=1")) == (
        "BadOption: toy.py takes no gradient of PyTorch or TensorFlow that was seen\n"
        "  asked: backprobe probe toy.py\n"
        "  why:   without a function, the file runs as a script, and what is shown are the gradients that it takes\n"
        "         itself; what jax.grad takes is explained by backprobe explain, and recorded of a function\n"
        "  next:  loss.backward() at the end of toy.py; or backprobe probe toy.py:f x=3, for a function f in it\n"
    )


def test_a_file_that_is_no_python(folder):
    (folder / "notes.txt").write_text("x")
    assert refused(ran("notes.txt:f")) == (
        "BadOption: 'notes.txt' is not a Python file\n  asked: backprobe probe notes.txt:f\n"
        "  next:  a file whose name ends in .py\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["toy.py:K", "x=1"], "BadOption: an int is neither a function nor a model\n"),
        (["toy.py:", "x=1"], "BadOption: toy.py has no function ''\n"),
        (
            ["toy.py:pair", "x=1", "--of", "7"],
            "BadOutput: the return value has nothing at position 7\n  asked: backprobe probe toy.py:pair x=1 --of 7\n",
        ),
        (
            ["toy.py:f", "x=3.0", "w=2.0", "b=1.0", "--wrt", "y"],
            "BadOption: 'y' is not an argument of f\n"
            "  asked: backprobe probe toy.py:f x=3.0 w=2.0 b=1.0 --wrt y\n  found: arguments: x, w, b\n",
        ),
        (
            ["toy.py:vector", "x=[1.0, 2]", "--cotangent", "[1, 2, 3]"],
            "BadOutput: the cotangent's shape differs from the output's\n",
        ),
        (["pure.py:f", "x=3", "--backend", "bogus"], "NoBackend: there is no backend 'bogus'\n"),
        (["toy.py:nothing"], "NothingToDifferentiate: nothing has no floating argument"),
        (
            ["toy.py:vector", "x=[True, False]"],
            "NothingToDifferentiate: vector has no floating argument to differentiate\n",
        ),
        (["toy.py:f", "x=3", "w=2", "b=1", "-s", "uu"], "NothingMatched: the pattern 'uu' matches nothing in f\n"),
    ],
)
def test_what_is_refused(words, said, folder):
    assert refused(ran(*words)).startswith(said)


ASKED = [
    (["probe", "toy.py:f", "x=1"], "  next:  x=... w=... b=...\n"),
    (["probe", "toy.py:K"], "  next:  backprobe probe toy.py:f x=3, for a function f in toy.py\n"),
    (["probe", "toy.py:f", "x=3", "w=2", "b=1", "-s", "uu"], "  next:  --select u\n"),
    (["explain", "toy.py:f", "uu", "x=3", "w=2", "b=1"], "  next:  u\n"),
    (["draw", "toy.py:f", "toy.svg", "x=3", "w=2", "b=1", "--open", "q"], "  next:  leave out --open\n"),
    (["draw", "toy.py:f", "x=3", "w=2"], "  next:  backprobe draw toy.py:f toy.svg x=3 w=2\n"),
    (["derive", "toy.py:f", "uu", "x=3", "w=2", "b=1"], "  next:  u\n"),
    (
        ["provoke", "toy.py:f", "x=3", "w=2", "b=1", "--bounds", "x=3"],
        "  next:  --bounds 'x=(-1.0, 1.0)', or --bounds x=None, which leaves it as it is\n",
    ),
    (["provoke", "toy.py:f", "x=3", "w=2", "b=1", "--tries", "0"], "  next:  --tries 100\n"),
    (
        ["explain", "toi.py"],
        "  next:  backprobe explain toy.py, or backprobe explain toy.py:f x=3 for a function in a file\n",
    ),
]


@pytest.mark.parametrize(("words", "next"), ASKED, ids=lambda one: " ".join(one) if isinstance(one, list) else "")
def test_what_was_asked_is_what_was_typed_and_so_is_what_to_type_next(words, next, folder):
    err = refused(invoked(*words))
    assert f"\n  asked: {shlex.join(['backprobe', *words[: 2 if words[1] == 'toi.py' else None]])}\n" in err
    assert err.endswith(next)


def test_help_fits_a_terminal_of_80_columns():
    for verb in ([], *([name] for name in main.commands)):
        text = invoked(*verb, "--help")[1]
        assert max(map(len, text.splitlines())) <= 80, text
        assert "..." not in text.replace("...]", "").replace("]...", ""), text


def test_a_misspelled_option(folder):
    err = refused(ran("toy.py:vector", "x=1", "--selct", "y"))
    assert err.startswith("BadOption: No such option '--selct'")
    assert "--select" in err
    assert err.endswith(
        "  asked: backprobe probe toy.py:vector x=1 --selct y\n  next:  backprobe probe toy.py:vector x=1 --select y\n"
    )


@pytest.mark.parametrize("verb", [name for name in main.commands if name != "demo"])
def test_a_verb_without_its_program(verb, folder):
    err = refused(invoked(verb))
    assert err.startswith("BadOption: Missing argument ")
    assert err.endswith(f"  asked: backprobe {verb}\n  next:  backprobe {verb} --help\n")


def test_the_old_name_of_probe(folder):
    assert refused(invoked("run", "toy.py:pair", "x=1", "--of", "a b")) == (
        "BadOption: `backprobe run` is now `backprobe probe`\n"
        "  asked: backprobe run toy.py:pair x=1 --of 'a b'\n"
        f"  found: commands: {', '.join(main.commands)}\n"
        "  next:  backprobe probe toy.py:pair x=1 --of 'a b'\n"
    )


def test_a_misspelled_verb(folder):
    err = refused(invoked("exlpain", "toy.py:f"))
    assert err.startswith("BadOption: there is no command 'exlpain'\n")
    assert err.endswith("  next:  backprobe explain toy.py:f\n")


# help


def test_help():
    for flag in ("--help", "-h"):
        out = printed(invoked(flag))
        assert "The gradient of any value inside a computation, by name." in out
        listed = re.findall(r"^  (\w+)  ", out.partition("Commands:")[2], re.M)
        verbs = "probe explain check provoke health draw derive diff watch memory report view export replay demo"
        assert listed == verbs.split()


PROBING = {"select", "of", "wrt", "cotangent", "strategy", "values", "partials", "nonfinite", "backend"}
# a gradient that is only printed, a tensor's own session, and functions that replace values
NOT_IN_A_SHELL = {"create_graph", "session", "replace", "replace_grad"}


def test_the_options_of_a_verb_are_those_of_the_api():
    def options(verb):
        own = {each.name for each in main.commands[verb].params if each.param_type_name == "option"}
        assert own >= {"json", "quiet"} and ("sarif" in own) == (verb in ("explain", "check", "health"))
        return own - {"m", "json", "quiet", "sarif"}

    def keywords(function):
        parameters = inspect.signature(function).parameters.values()
        return {each.name for each in parameters if each.default is not inspect.Parameter.empty}

    assert keywords(bp.probe) - {"target"} == PROBING | NOT_IN_A_SHELL
    assert options("probe") == PROBING | {"path", "overwrite"}
    assert (
        options("explain") - {"steps", "patch", "no_experiments"} == options("health") == options("derive") == PROBING
    )
    assert options("draw") == PROBING | (keywords(bp.draw) - {"path"})
    assert options("check") == keywords(bp.check) | {"strict"}
    assert options("diff") == PROBING | keywords(bp.diff) | {"strict", "html"}
    assert options("provoke") == keywords(bp.provoke) - {"executor"}
    assert options("replay") == keywords(bp.replay)


@pytest.mark.parametrize("verb", ["probe", "explain", "check", "provoke", "health", "draw", "derive", "diff"])
def test_the_help_of_a_verb(verb):
    out = printed(invoked(verb, "--help", terminal_width=100))
    assert f"  backprobe {verb} toy.py:f " in out
    for option in main.commands[verb].params:
        assert option.param_type_name == "argument" or option.opts[0] in out


def test_version_of_the_installed_command():
    done = command("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"backprobe, version {bp.__version__}\n", "")
    assert importlib.metadata.version("backprobe") == bp.__version__


def test_help_imports_no_framework():
    """Help is fast: only a run imports what the user's file imports."""
    done = command("--help", env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.returncode == 0
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
    assert "click" in imported
    assert imported & {"torch", "numpy", "rich", "safetensors"} == set()


# drawing


def test_draw(folder):
    assert invoked("draw", "toy.py:f", "toy.svg", *ARGUMENTS) == (0, "the circuit: toy.svg\n", "")
    assert Drawn((folder / "toy.svg").read_text()).edges["x", "u"] == "2"
    assert invoked("draw", "toy.py:f", "toy.png", *ARGUMENTS, "--partials", "false", "--direction", "down")[0] == 0
    assert (folder / "toy.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["toy.py/toy.svg", *ARGUMENTS], "BadOption: the drawing cannot be written to toy.py/toy.svg\n"),
        ([*ARGUMENTS], "BadOption: no file to draw into\n"),
        (["x=3.gif", *ARGUMENTS], "BadOption: a drawing is saved as .svg, .pdf, .png or .html\n"),
        (["toy.svg", *ARGUMENTS, "--direction", "up"], "BadOption: direction is one of right, down\n"),
        (["toy.svg", *ARGUMENTS, "--depth", "0"], "BadOption: depth is "),
        (["toy.svg", *ARGUMENTS, "--depth", "two"], "BadOption: depth is "),
        (["toy.svg", *ARGUMENTS, "--contributions", "--partials", "false"], "BadOption: the recording has no contr"),
        (["toy.svg", *ARGUMENTS, "--partials", "some"], "BadOption: partials is one of true, false, full"),
    ],
)
def test_drawings_that_are_refused(folder, words, said):
    err = refused(invoked("draw", "toy.py:f", *words))
    assert err.startswith(said)
    assert not (folder / "toy.svg").exists()


def test_derive(folder):
    out = printed(invoked("derive", "toy.py:f", "x", *ARGUMENTS))
    assert out.splitlines()[0].endswith("= 2")
    out = printed(invoked("derive", "toy.py:f", "x", "v", *ARGUMENTS))
    assert out.splitlines()[0] == "∂v/∂x = ∂v/∂u · ∂u/∂x = 1·w = 1·2 = 2"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["y", *ARGUMENTS], "UnknownName: no value is named 'y'\n"),
        (["x", *ARGUMENTS, "--partials", "false"], "BadOption: the recording has no partials\n"),
        (["x", "nothing", *ARGUMENTS], "UnknownName: no value is named 'nothing'\n"),
        (
            [*ARGUMENTS],
            "BadOption: no value to differentiate with respect to\n"
            "  asked: backprobe derive toy.py:f x=3 w=2 b=1\n"
            "  next:  backprobe derive toy.py:f x x=3 w=2 b=1\n",
        ),
    ],
)
def test_derivations_that_are_refused(folder, words, said):
    err = refused(invoked("derive", "toy.py:f", *words))
    assert err.startswith(said)


SICK = "import torch\ndef f(x):\n    a = torch.relu(x - 100)\n    b = x.sum() * 2\n    return a.sum() + b * 0\n"


def test_health(folder):
    assert invoked("health", "toy.py:f", *ARGUMENTS)[0] == 0
    (folder / "sick.py").write_text(SICK)
    out = printed(invoked("health", "sick.py:f", "x=[[1.0, 2.0], [3.0, 4.0]]"), 1)
    assert "finding" in out.splitlines()[0]
    err = refused(invoked("health", "toy.py:f", "x=3"))
    assert err.startswith("BadOption: f cannot be called with these arguments")


# a saved recording in the place of a function


def test_a_saved_recording_is_read_as_the_function_would_be(folder):
    (folder / "sick.py").write_text(SICK)
    (folder / "cut.py").write_text(CUT)
    for program, value in (("toy.py:f", "u"), ("cut.py:f", "d"), ("sick.py:f", "a")):
        words = (
            ARGUMENTS if program == "toy.py:f" else ("x=[1.0, 2.0]", "w=[3.0, 4.0]") if "cut" in program else ["x=3"]
        )
        save = ("--save", "saved", "--overwrite", "--partials", "true")
        assert invoked("probe", program, *words, *save)[0] == 0
        for verb in (["explain"], ["explain", value], ["health"], ["derive", "x"]):
            asked = verb[1:]
            live = invoked(verb[0], program, *asked, *words, *(["--partials", "true"] if verb[0] != "explain" else []))
            code, out, err = invoked(verb[0], "saved", *asked)
            same = [re.sub("asked: .*", "", text) for text in (err, live[2])]
            known = re.sub(r"\n  note: the gradient of .* at these arguments, .*", "", live[1])  # of another run
            known = re.sub(r"\n +tried: .*", "", known)
            assert (code, out, same[0]) == (live[0], known, same[1]), (program, verb)
        assert invoked("draw", program, "live.svg", *words) == (0, "the circuit: live.svg\n", "")
        assert invoked("draw", "saved", "read.svg") == (0, "the circuit: read.svg\n", "")
        assert (folder / "live.svg").read_text() == (folder / "read.svg").read_text()


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["explain", "saved", "x=3"], "x=3"),
        (["explain", "saved", "u", "--nonfinite"], None),
        (["health", "saved", "--wrt", "x"], "--wrt"),
        (["draw", "saved", "x.svg", "--partials", "true"], "--partials"),
    ],
)
def test_what_is_for_functions_is_refused_beside_a_recording(folder, words, given):
    assert invoked("probe", "toy.py:f", *ARGUMENTS, "--save", "saved", "--partials", "true")[0] == 0
    err = refused(invoked(*words))
    if given is not None:
        assert err.startswith(f"BadOption: {given} is for a function, and saved is a saved recording\n")


def test_a_folder_that_is_not_a_recording(folder):
    (folder / "empty").mkdir()
    for words in (["explain", "empty"], ["health", "empty"], ["draw", "empty", "x.svg"], ["derive", "empty", "x"]):
        err = refused(invoked(*words))
        assert err.startswith("BadRecording: ")


def test_the_demo_draws_its_circuits_and_says_where(folder):
    code, out, _ = invoked("demo")
    drawn = re.findall(r"^the circuit: (.*)$", out, re.M)
    assert drawn == [f"backprobe-demo/{name}.svg" for name in ("toy", "composed", "gpt2-depth-1", "gpt2-depth-2")]
    assert Drawn((folder / drawn[0]).read_text()).edges["w", "u"] == "3"
    assert "h.1" in Drawn((folder / drawn[3]).read_text()).nodes
    assert code == invoked("demo")[0] == 0  # twice works


def test_the_demo_says_where_it_cannot_draw(folder):
    (folder / "taken").write_text("")
    code, _, err = invoked("demo", "--folder", "taken/in")
    assert code == 2
    assert "the folder taken/in cannot be made" in err


CHECKED = (
    WRONG
    + """\
def wrong(x):
    y = Bad.apply(x)
    return y

def right(x, w):
    return (x * w).exp()

def nothing(x):
    return x
"""
)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("x=3", "w=2"), 1, "root breaks at 1 of 1 risky operation\n"),
        (("x=3", "w=2", "--bounds", "x=(1, 4)", "--bounds", "w=None"), 0, "root did not break: 1 risky operation, "),
        (("x=3", "w=2", "--bounds", "x=None"), 1, "    seen:  w: 2 in the example, "),
        (
            ("x=3", "w=2", "--bounds", "x=(1, 4)", "--bounds", "w=None", "--tries", "3"),
            0,
            "1 risky operation, 3 tried inputs",
        ),
    ],
)
def test_provoke(folder, words, code, said):
    (folder / "provoked.py").write_text("import torch\n\ndef root(x, w):\n    return torch.sqrt(x * w)\n")
    found, out, err = invoked("provoke", "provoked.py:root", *words)
    assert (found, err) == (code, "")
    assert said in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--bounds", "x"), "BadOption: 'x' is not of the form NAME=VALUE"),
        (("--bounds", "y=(0, 1)"), "BadOption: 'y' is not a floating argument"),
        (("--seed", "-1"), "BadOption: seed is a whole number from 0 on"),
        (("--tries", "0"), "BadOption: tries is a whole number from 1 on"),
    ],
)
def test_provoke_with_bad_options(folder, words, said):
    (folder / "provoked.py").write_text("import torch\n\ndef root(x, w):\n    return torch.sqrt(x * w)\n")
    assert refused(invoked("provoke", "provoked.py:root", "x=3", "w=2", *words)).startswith(said)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("wrong", "x=[1.0, 2.0]"), 1, "wrong: 1 derivative is wrong (1 call checked"),
        (("right", "x=3", "w=2"), 0, "right: taken by itself, each call has the right derivative (2 calls checked"),
        (("nothing", "x=1"), 0, "nothing: nothing was checked"),
        (("nothing", "x=1", "--strict"), 1, "nothing: nothing was checked"),
        (
            ("right", "x=3", "w=2", "--strict"),
            0,
            "right: taken by itself, each call has the right derivative (2 calls checked",
        ),
    ],
)
def test_check(folder, words, code, said):
    (folder / "checked.py").write_text(CHECKED)
    name, *arguments = words
    found, out, err = invoked("check", f"checked.py:{name}", *arguments)
    assert (found, out.startswith(said)) == (code, True), out
    assert err == (
        "not everything could be checked; with --strict the exit status would be 1\n" * (name == "nothing" and not code)
    )
    assert "checked.py:14" not in out
    assert ("checked.py:13" in out) == (name == "wrong")


def test_check_leaves_out_what_is_named_and_refuses_what_it_does_not_understand(folder):
    (folder / "checked.py").write_text(CHECKED)
    words = ["check", "checked.py:wrong", "x=[1.0, 2.0]", "--skip"]
    assert "Bad: skipped as asked, 1 call" in invoked(*words, "Bad")[1]
    assert "checked.py has no 'Bda'" in refused(invoked(*words, "Bda"))
    assert "next:  backprobe check checked.py:wrong" in refused(invoked("check", "checked.py:wrnog", "x=1"))
    missing = "BadOption: wrong cannot be called with these arguments"
    assert missing in refused(invoked("check", "checked.py:wrong", "y=1"))


# explain

CUT = """\
import torch

def f(x, w):
    u = x * w
    d = u.detach()
    return (d * torch.as_tensor(w)).sum()

def all_cut(x):
    d = x.detach()
    return d.sum()
"""


@pytest.fixture
def explained(folder):
    """Runs ``backprobe explain`` in a folder with a program that cuts its graph: exit code, output, errors."""
    (folder / "cut.py").write_text(CUT)
    return functools.partial(invoked, "explain")


def test_explain_a_value(explained, folder):
    out = printed(explained("cut.py:f", "u", "x=[1.0, 2.0]", "w=[3.0, 4.0]"), 1)
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0] == "'u' has no gradient (not_connected): no path leads from it to the output"
    assert lines[1].startswith("`u.detach()` at cut.py:5 cuts ")
    assert "line:  d = u.detach()" in lines


def test_explain_every_value(explained):
    out = printed(explained("cut.py:f", "x=[1.0, 2.0]", "w=[3.0, 4.0]"), 1)
    assert out.startswith("2 of 5 values with a gradient")
    assert "cuts 'd' off from 'u': no gradient comes to x, u" in out.splitlines()[1]


def test_the_exit_status_says_whether_something_was_found(explained):
    out = printed(explained("toy.py:f", "u", "x=3.0", "w=2.0", "b=1.0"))
    assert out.startswith("'u' has its gradient: nothing is missing")
    assert explained("toy.py:f", "x=3.0", "w=2.0", "b=1.0", "--nonfinite")[0] == 0


def test_explain_takes_the_options_of_probe(explained):
    out = printed(explained("cut.py:f", "w", "x=1.0", "w=2.0", "--wrt", "x", "-s", "**"), 1)
    assert out.startswith("'w' has no gradient (not_tensor)")
    assert "d = u.detach()" in printed(explained("cut.py:f", "x", "x=1.0", "w=2.0", "--wrt", "x", "-s", "**"), 1)


def test_an_output_that_nothing_leads_to_is_explained(explained):
    assert "line:  d = x.detach()" in printed(explained("cut.py:all_cut", "x", "x=1.0"), 1)


NOT_FINITE = """\
import torch

def g(x):
    y = torch.where(x > 0, torch.sqrt(x), 0)
    return y.sum()
"""


def test_explain_nonfinite(explained, folder):
    (folder / "bad.py").write_text(NOT_FINITE)
    out = printed(explained("bad.py:g", "x=[0.0, 1.0]", "--nonfinite"), 1)
    assert "NaN is born in the backward of 'sqrt()' (bad.py:4): 0 · Inf" in out
    assert "it lies in the branch torch.sqrt(x) of where (bad.py:4)" in out
    assert "recorded without nonfinite=True" not in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("cut.py:f v x=1.0 w=2.0", "UnknownName: no value is named 'v'"),
        ("cut.py:f u x=1.0 w=2.0 --nonfinite", "--nonfinite is about all values"),
        ("nowhere.py:f x=1", "next:  backprobe explain toy.py:f x=3"),
        ("cut.py x=1", "next:  backprobe explain cut.py:f x=3, for a function f in it"),
    ],
)
def test_what_explain_refuses(explained, words, said):
    assert said in refused(explained(*words.split()))


def test_it_is_a_module_too():
    assert python("-m", "backprobe", "--version") == python(
        "-c", "import backprobe_command as c; c.main()", "--version"
    )
    code, out, err = python("-m", "backprobe", "explain", "nowhere.py")
    assert code == 2 and not out and err.startswith("BadOption: there is no script 'nowhere.py'")
