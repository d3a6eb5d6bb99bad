"""How a command ends: its exit status, what is shown of errors of the program, and Ctrl-C."""

import inspect
import io
import os
import re
import signal

import pytest
import torch

import backprobe as bp
from backprobe.cli.progress import progress
from backprobe.show.printing import encodable
from commands import COMMAND, DISTRIBUTED, forked, in_folder, invoked, printed, python, refused, unmeasured, unread

PROGRAM = """\
import sys
import torch

def well(x):
    return x * 2

def boom(x):
    y = x * 2
    return inner(y)

def inner(y):
    raise LookupError("mine")

def product(x):
    return x @ torch.ones(7, 7)

def again(x):
    try:
        return {}["nothing"]
    except KeyError as error:
        raise ValueError("not there") from error

def leaves(x, status):
    sys.exit(status)

def stopped(x):
    u = x * 2
    v = u.exp()
    raise KeyboardInterrupt
"""
VERBS = (["probe"], ["explain"], ["check"], ["health"], ["draw", "f.svg"], ["derive", "x"])


@pytest.fixture(autouse=True)
def ctrl_c_is_heard():
    """Also where these tests run in the background of a shell, which lets its jobs ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    with in_folder(tmp_path, monkeypatch, {"own.py": PROGRAM}) as path:
        yield path


def run(verb, program, *words):
    return invoked(verb[0], program, *verb[1:], *words)


def files(err):
    """The files of the frames that a traceback shows."""
    return {os.path.basename(file) for file in re.findall(r'^  File "(.*?)"', err, re.M)}


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_an_error_of_the_program_is_shown_with_its_own_lines_alone(verb, folder):
    err = refused(run(verb, "own.py:boom", "x=1.0"), 3)
    assert err.startswith("Traceback (most recent call last):\n")
    assert "\nLookupError: mine\nbackprobe: raised while " in err
    assert files(err) == {"own.py"}
    assert err.count("  File ") == 2


def test_an_error_of_an_operation_that_is_checked(folder):
    err = refused(invoked("check", "own.py:product", "x=1.0"), 3)
    assert files(err) == {"own.py"}


def test_an_error_and_its_cause(folder):
    err = refused(invoked("probe", "own.py:again", "x=1.0"), 3)
    assert files(err) == {"own.py"}
    assert "KeyError: 'nothing'\n\nThe above exception was the direct cause" in err


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("def f(x:\n", "SyntaxError: '(' was never closed"),
        ("import nowhere_at_all\n", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("import unfinished\n", "SyntaxError: '(' was never closed"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
    ],
)
@pytest.mark.parametrize("program", ["broken.py:f", "broken.py"])
def test_an_error_while_the_file_is_loaded_is_shown_as_python_shows_it(program, text, last, folder):
    (folder / "unfinished.py").write_text("def f(x:\n")
    (folder / "broken.py").write_text(text)
    err = refused(invoked("explain", program, "x=1"), 3)
    _, _, bare = python("broken.py", cwd=folder)
    assert [line for line in err.splitlines() if not line.startswith("backprobe: ")] == bare.splitlines()
    assert err.splitlines()[bare.count("\n") - 1] == last


def test_an_error_of_backprobe_itself_is_shown_whole(folder, monkeypatch):
    monkeypatch.setattr("backprobe.cli.program.called_with", None)
    err = refused(invoked("probe", "own.py:well", "x=1.0"))
    assert "TypeError: 'NoneType' object is not callable\nThis is a mistake in backprobe" in err
    assert "program.py" in files(err)


@pytest.mark.parametrize("status", [0, 1, 7])
def test_the_programs_own_exit_status_wins(status, folder):
    assert invoked("probe", "own.py:leaves", "x=1.0", f"status={status}")[0] == status
    (folder / "script.py").write_text(f"import sys, torch\nx = torch.ones(2)\nsys.exit({status})\n")
    assert invoked("explain", "--nonfinite", "script.py")[0] == status


def test_ctrl_c_gives_what_was_recorded_so_far(folder):
    code, out, err = invoked("probe", "own.py:stopped", "x=1.0")
    assert (code, err) == (130, "stopped by Ctrl-C; what is known so far:\n")
    assert re.findall(r"^(\w+) +\S+ +backward_not_run", out, re.M) == ["x", "u", "v"]
    code, out, err = invoked("check", "own.py:stopped", "x=1.0")
    assert (code, err) == (130, "stopped by Ctrl-C; what is known so far:\n")
    assert out.startswith(
        "stopped: taken by itself, each call that was checked has the right derivative (2 calls checked"
    )
    assert "the program was interrupted (KeyboardInterrupt)" in out


def test_ctrl_c_in_a_script(folder):
    (folder / "script.py").write_text(
        "import torch\nx = torch.ones(2, requires_grad=True)\nd = x.detach()\n(x.sum() + d.sum()).backward()\n"
        "raise KeyboardInterrupt\n"
    )
    code, out, err = invoked("explain", "script.py")
    assert (code, err) == (130, "stopped by Ctrl-C; what is known so far:\n")
    assert out == "2 of 3 values with a gradient\n"


def test_ctrl_c_while_the_file_is_imported(folder):
    (folder / "late.py").write_text("raise KeyboardInterrupt\n")
    assert invoked("probe", "late.py:f", "x=1") == (130, "", "stopped by Ctrl-C\n")


def test_ctrl_c_that_an_import_drops(folder):
    """PyTorch's C++ drops the one that comes while it imports NumPy, which then fails in other words."""
    late = "import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    while True: pass\n"
    late += "except KeyboardInterrupt:\n    pass\n"
    (folder / "late.py").write_text(late + "raise ImportError('cannot load module more than once per process')\n")
    assert invoked("probe", "late.py:f", "x=1") == (130, "", "stopped by Ctrl-C\n")
    (folder / "later.py").write_text(late + "def f(x): return x * 2\n")
    assert invoked("probe", "later.py:f", "x=1") == (130, "", "stopped by Ctrl-C\n")


def test_ctrl_c_while_the_command_itself_is_loaded():
    code = """
        import os, signal, sys
        module, sys.argv[1] = sys.argv[1], "--version"
        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name == module:
                    os.kill(os.getpid(), signal.SIGINT)
        sys.meta_path.insert(0, Finder())
        from backprobe_command import main
        main()
    """
    for module in ("backprobe", "backprobe.record.names", "click"):
        assert unmeasured("-c", inspect.cleandoc(code), module) == (-signal.SIGINT, "", "")
    assert unmeasured("-c", inspect.cleandoc(code), "none")[0] == 0


# nobody reads what is printed


def test_a_command_whose_output_nobody_reads_ends_quietly(folder):
    bp.probe(lambda x: x * 2)(torch.tensor(1.0)).save(folder / "rec")
    assert unread(python, COMMAND, "explain", "rec") == (141, "", "")
    assert unread(python, COMMAND, "health", "rec") == (141, "", "")


def test_a_script_whose_output_nobody_reads(folder):
    (folder / "script.py").write_text("import torch\nfor i in range(9): print(i, flush=True)\n")
    assert unread(forked, COMMAND, "explain", "script.py") == (141, "", "")
    (folder / "train.py").write_text("import torch\nprint(1)\n")
    code, _, err = unread(forked, COMMAND, "watch", "train.py", imported=DISTRIBUTED)
    assert (code, err) == (
        141,
        "nothing was watched: no optimizer of PyTorch has parameters of a model that was called\n",
    )


def test_a_pipe_of_the_program_that_breaks_is_its_own_error(folder):
    (folder / "pipes.py").write_text(
        "import os\ndef f(x):\n    r, w = os.pipe()\n    os.close(r)\n    os.write(w, b'x')\n"
    )
    err = refused(invoked("probe", "pipes.py:f", "x=1.0", "--backend", "torch"), 3)
    assert "BrokenPipeError: [Errno 32] Broken pipe" in err


# what to type next

NEXT = {
    "probe own.py:well x=[1.0,2]": "--cotangent 'ones(2)'",
    "probe own.py:well x=1.0 -s xx": "--select x",
    "probe own.py:well x=1.0 -s zz": "leave out --select, for every name",
    "probe own.py:well x=1.0 --wrt y": "--wrt x",
    "probe own.py:well x=1.0 --of loss": "leave out --of",
    "probe own.py:well x=1.0 --partials some": "--partials true",
    "probe own.py:well x=1.0 --strategy fast": "--strategy edges",
    "probe own.py:well x=1.0 --backend torsh": "--backend torch",
    "draw own.py:well f.svg x=1.0 --direction up": "--direction down",
    "draw own.py:well f.gif x=1.0": "f.svg",
    "draw own.py:well f.svg x=1.0 --contributions --partials false": "--partials true",
    "explain own.py:well xx x=1.0": "x",
    "probe owm.py:well x=1.0": "backprobe probe own.py:well x=3",
    "probe own.py x=1.0": "loss.backward() at the end of own.py; or backprobe probe own.py:f x=3, for a function f in "
    "it",
}


@pytest.mark.parametrize("words", NEXT)
def test_what_to_type_next_is_spelled_for_a_shell(words, folder):
    err = refused(invoked(*words.split()))
    assert err.splitlines()[-1] == f"  next:  {NEXT[words]}"


# what the terminal can do


def test_plain_characters_where_others_cannot_be_printed():
    assert encodable("∂v/∂x · 2×3 → …", "ascii") == "dv/dx * 2x3 -> ..."
    assert encodable("2×3 · …", "latin-1") == "2×3 · ..."
    assert encodable("λ of shape 2×3", "utf-8") == "λ of shape 2×3"
    assert encodable("λ", "ascii") == r"\u03bb"


def test_a_command_prints_where_only_ascii_can_be(folder):
    assert printed(invoked("derive", "own.py:well", "x", "x=1.0", charset="ascii")).startswith("dreturn/dx = ")


def test_a_table_is_shown_where_only_ascii_can_be(monkeypatch):
    written = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", written)
    bp.probe(lambda x: (x * 2).sum())(torch.ones(30, 30)).show()
    assert b"30x30 float32" in written.buffer.getvalue()


def test_progress_is_for_a_terminal_alone(monkeypatch, capsys):
    from time import sleep

    for is_terminal in (False, True):
        monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal, raising=False)
        with progress(lambda: "f runs", first=0.01):
            sleep(0.1)
        err = capsys.readouterr().err
        assert bool(err) == is_terminal
    lines = err.splitlines()
    assert lines[0] == "backprobe: f runs, 0 s (Ctrl-C: what is known so far)"
    assert len(lines) < 5, "each comes after twice the time"


def test_a_saved_recording_is_printed_and_says_how_to_get_partials(folder):
    printed(invoked("probe", "own.py:well", "x=3.0", "--save", "rec"))
    assert printed(invoked("probe", "rec")).splitlines()[1].split()[:3] == ["x", "3", "2"]
    assert "--save is for a function, and rec is a saved recording" in refused(
        invoked("probe", "rec", "--save", "other")
    )
    more = "backprobe probe toy.py:f x=3 --partials true --save rec --overwrite, for the function f that it is of"
    for words in (["derive", "rec", "x"], ["draw", "rec", "f.svg", "--contributions"]):
        assert refused(invoked(*words)).splitlines()[-1] == f"  next:  {more}"


def test_what_is_suggested_in_the_place_of_a_name_can_be_probed(folder):
    (folder / "net.py").write_text("import torch\nclass Net(torch.nn.Module): pass\ndef step(x): return x * 2\n")
    assert refused(invoked("probe", "net.py:", "x=3")).endswith("next:  backprobe probe net.py:step\n")
    assert refused(invoked("probe", "net.py.step", "x=3")).endswith("next:  backprobe probe net.py:step x=3\n")
