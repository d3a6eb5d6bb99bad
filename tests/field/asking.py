"""Whole programs of other people's kind, as files: what is asked of each, and what must and must not be answered.

The comment lines at the head of a program say so, a key and a value each:

    # from: https://…           the thread or example that it is rebuilt from; or `own`
    # ask: explain --nonfinite  the words of the command, PROGRAM in the place of the file (at the end if it is not
                                there); `python` runs the program by itself, which then asserts what is right
    # exit: 1                   the status; 0 if it is not said
    # says: a pattern           which the answer has (`re.search`, white space joined to single spaces), as it is
                                printed or without the lines that headlines name; may come often
    # never: a pattern          which the answer does not have; may come often

The answer is standard output and standard error. A comment `# <- here` at the end of a line of the program marks a
line that the answer must name as ``FILE:LINE``; nothing is asked of other lines.

The folder ``open`` has programs of which the answer is not right yet: no test runs them.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

from commands import in_folder, invoked

HERE = Path(__file__).parent
KEY = re.compile(r"# (from|ask|exit|says|never): (.*)")
PLACE = re.compile(r" (?:at [\w./-]+\.py:\d+(?=[ :;])|\([\w./-]+\.py:\d+\))")
MARK = re.compile(r"#\s*<- here\b")
APART = ("torch.jit.script", "KERAS_BACKEND", "XLA_FLAGS", "jax.config.update")
"""What a program has that is run in a process of its own."""


@dataclass(frozen=True)
class Asked:
    """What the head of a program asks for."""

    ask: str = "explain"
    exit: int = 0
    address: str = ""
    says: list[str] = field(default_factory=list)
    never: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


def programs(framework):
    """The programs of a folder, in order: helpers that they import begin with an underscore."""
    return sorted(path for path in (HERE / framework).glob("*.py") if not path.name.startswith("_"))


def asked(path):
    """What the head of a program asks for."""
    text = path.read_text().splitlines()
    keys = [found.groups() for line in text if (found := KEY.fullmatch(line.rstrip()))]
    given = dict(keys)
    return Asked(
        ask=given.get("ask", "explain"),
        exit=int(given.get("exit", 0)),
        address=given["from"],
        says=[value for key, value in keys if key == "says"],
        never=[value for key, value in keys if key == "never"],
        lines=[number for number, line in enumerate(text, 1) if MARK.search(line)],
    )


def answered(path, ask, tmp_path, monkeypatch, in_process=True):
    """The status and what is printed where a program is asked, in a folder that holds a copy of it and its helpers."""
    files = {each.name: each.read_text() for each in [path, *path.parent.glob("_*.py")]}
    words = shlex.split(ask)
    given = [path.name if word == "PROGRAM" else word.replace("PROGRAM:", f"{path.name}:") for word in words]
    given += [path.name] if given == words else []
    with in_folder(tmp_path, monkeypatch, files):
        # What scripts of PyTorch are differs where another test has imported its internal testing module, as
        # ``test_operators.py`` does.
        # Keras takes its backend and JAX its devices and settings once for a process.
        if not in_process or any(each in path.read_text() for each in APART):
            command = given[1:] if words[0] == "python" else ["-m", "backprobe", *given]
            ran = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=600)
            return ran.returncode, ran.stdout + ran.stderr
        if words[0] == "python":
            return _alone(path.name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code, out, err = invoked(*given)
        return code, out + err


def _alone(name):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.path.insert(0, "")
        runpy.run_path(name, run_name="__main__")
    return 0, printed.getvalue()


def faults(path, tmp_path, monkeypatch, in_process=True):
    """What is wrong with the answer to a program: nothing, if it is right."""
    return wrong_in(path, *answered(path, asked(path).ask, tmp_path, monkeypatch, in_process))


def wrong_in(path, code, out):
    """What is wrong with a status and what was printed: nothing, if it is right."""
    one = asked(path)
    joined = " ".join(out.split())
    both = (joined, PLACE.sub("", joined))
    wrong = [f"status {code}, not {one.exit}"] if code != one.exit else []
    wrong += [f"does not say {part}" for part in one.says if not any(re.search(part, each) for each in both)]
    wrong += [f"says {part}" for part in one.never if any(re.search(part, each) for each in both)]
    wrong += [f"does not name line {line}" for line in one.lines if f"{path.name}:{line}" not in joined]
    return [*wrong, out] if wrong else []
