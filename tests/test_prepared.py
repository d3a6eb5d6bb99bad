"""A program that is forked from a process which has PyTorch is as one that Python starts, but for that import."""

import os
import re
import subprocess
import sys

import pytest

import prepared
from commands import python

STATE = """
import os, sys, warnings
main = sys.modules["__main__"]
print(sys.argv, sys.path[0], vars(main) is globals(), __name__, main.__dict__.get("__file__"), os.getcwd())
print(sorted(os.environ), os.environ["GIVEN"], sys.stdin.read(), "torch" in sys.modules and "backprobe" in sys.modules)
print(main.one.__annotations__, file=sys.stderr) if "one" in globals() else None
"""
ENDS = {
    "to its end": "def one(x: int): pass\n" + STATE,
    "with a status": STATE + "sys.exit(7)",
    "with a message": STATE + "sys.exit('no more')",
    "with an error": STATE + "def f():\n    raise LookupError('mine')\nf()",
    "with a warning": STATE + "warnings.warn('mine')",
}

OF_PYTHON = re.compile(r'  File "<frozen runpy>", line .*\n')  # what runs a module stands in its traceback


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("form", [["program.py"], ["-m", "program"], ["-c", None]], ids=["file", "module", "text"])
def test_it_sees_and_does_what_a_process_of_its_own_does(tmp_path, form, end):
    (tmp_path / "program.py").write_text(ENDS[end])
    words = [ENDS[end] if word is None else word for word in form]
    settings = {"cwd": tmp_path, "env": {**os.environ, "GIVEN": "this"}}
    ran = prepared.run("torch", "-W", "error", *words, "--lr", "1", **settings)
    wanted = python(*words, "--lr", "1", **settings, input="")
    assert (ran.returncode, ran.stdout, ran.stderr) == (*wanted[:2], OF_PYTHON.sub("", wanted[2]))


def test_nobody_may_read_what_it_writes():
    def unread(run):
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "wb"):
            return run("-c", "print(1)", stdout=writer)

    ours = unread(lambda *words, stdout: prepared.run("torch", *words, stdout=stdout))
    python = unread(lambda *words, **to: subprocess.run([sys.executable, *words], **to, stderr=-1, text=True))
    assert (ours.returncode, ours.stderr) == (python.returncode, python.stderr)


def test_it_is_killed_where_it_takes_too_long():
    with pytest.raises(TimeoutError):
        prepared.run("torch", "-c", "import time; time.sleep(600)", timeout=0.5)


def test_a_signal_that_ends_it_is_its_status():
    assert prepared.run("torch", "-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)").returncode == -15
