"""Commands, run in this process or as a Python of its own, and what they print."""

import os
import re
import subprocess
import sys
import tempfile
import traceback
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from click.testing import CliRunner

import prepared
from backprobe.cli import main

DISTRIBUTED = "torch._dynamo torch.distributed.fsdp torch.distributed.tensor.parallel torch.distributed.pipelining"
"""What programs of several processes import, which takes three times as long as PyTorch alone."""
WRONG = """\
import torch

class Bad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, gradient):
        return gradient

"""
"""The beginning of a user's file, with a derivative that is wrong."""


def invoked(*words, charset="utf-8", **settings):
    """The exit code, standard output and standard error of a command; an exception that is not an exit comes out."""
    result = CliRunner(charset=charset).invoke(main, words, catch_exceptions=False, **settings)
    return result.exit_code, result.stdout, result.stderr


def verbs():
    """The names of all commands, as ``backprobe --help`` lists them."""
    listed = printed(invoked("--help")).partition("\nCommands:\n")[2]
    return set(re.findall(r"^  (\w+)", listed, re.MULTILINE))


@contextmanager
def in_folder(path, monkeypatch, files):
    """A folder with a user's files, and a Python that forgets afterwards what was imported from it."""
    for name, text in files.items():
        (path / name).write_text(text)
    monkeypatch.chdir(path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)  # torch.distributed puts one of its own, and leaves it
    before = set(sys.modules)
    yield path
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(path)):
            del sys.modules[name]


def python(*words, **settings):
    """Exit code, standard output and standard error of a Python of its own, in which a warning is an error."""
    command = [sys.executable, "-W", "error", *map(str, words)]
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "timeout": 120, **settings}
    ran = subprocess.run(command, text=True, **settings)
    return ran.returncode, ran.stdout or "", ran.stderr


def unmeasured(*words, **settings):
    """What ``python`` gives, also under ``make coverage``, of a process that coverage cannot be in.

    It looks for the package before the program imports it, and writes a file of its own where the process ends.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
    return python(*words, env=kept, **settings)


COMMAND = Path(sys.executable).parent / "backprobe"
"""The installed command, which is a file of Python."""


def leaves_a_folder():
    """Is this a release of PyTorch that makes a folder when it is imported in part, and leaves it to be removed?"""
    torch = find_spec("torch")
    file = Path(torch.origin).parent / "distributed" / "nn" / "jit" / "instantiator.py" if torch else None
    return file is not None and file.exists() and "= tempfile.TemporaryDirectory()" in file.read_text()


LEFT = ["-W", "ignore:Implicitly cleaning up"] if leaves_a_folder() else []


def forked(*words, imported="torch", **settings):
    """What ``python`` gives, of a process that has imported a framework when it begins: see ``prepared``."""
    ran = prepared.run(imported, "-W", "error", *LEFT, *words, **settings)
    return ran.returncode, ran.stdout, ran.stderr


def unread(run, *words, **settings):
    """What ``python`` or ``forked`` gives of a process whose output nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb"):
        return run(*words, stdout=writer, **settings)


def in_a_fork(work):
    """The status that ``work`` returns in a fork of this process, which runs PyTorch alone, and what it prints."""
    streams = [tempfile.TemporaryFile() for _ in range(2)]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for at, stream in enumerate(streams, 1):
                os.dup2(stream.fileno(), at)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
            code = work()
        except BaseException:  # noqa: BLE001 -- it is printed
            traceback.print_exc()
        finally:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    printed = []
    for stream in streams:
        with stream:
            stream.seek(0)
            printed.append(stream.read().decode())
    return code, *printed


def printed(ran, code=0):
    """What was printed by a command that ended with this status and without errors."""
    found, out, err = ran
    assert (found, err) == (code, "")
    return out


def refused(ran, code=2):
    """The errors of a command that ended with this status and printed nothing."""
    found, out, err = ran
    assert (found, out) == (code, "")
    return err


def unplaced(text):
    """A report without the places that its headlines name."""
    return re.sub(r" (\(|at )\w+\.py:\d+\)?", "", text)
