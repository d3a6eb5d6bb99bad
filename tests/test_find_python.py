"""``.ci/find-python`` finds an interpreter that will do, or says in one line what to install."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
INSTALL = "backprobe needs Python 3.11 or later with venv (Debian, Ubuntu: apt-get install python3 python3-venv)\n"


@pytest.fixture
def machine(tmp_path):
    """A machine with a shell and make and no Python; each name given is put there as a program."""

    def run(*words, **programs):
        for name in ("sh", "make", "test"):
            (tmp_path / name).symlink_to(shutil.which(name))
        for name, target in programs.items():
            (tmp_path / name.replace("_", ".")).symlink_to(target)
        settings = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
        ran = subprocess.run(words, cwd=ROOT, env=settings, capture_output=True, text=True)
        return ran.returncode, ran.stdout, ran.stderr

    return run


@pytest.fixture
def broken(tmp_path):
    """What stands for a Python that is too old or has no venv: it fails at what it is asked."""
    path = tmp_path / "broken"
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    return path


def base():
    return Path(sys.base_prefix) / "bin" / f"python{RUNNING}"


def test_no_python_is_one_line_that_says_what_to_install(machine):
    assert machine(".ci/find-python") == (1, "", INSTALL)


def test_one_that_will_not_do_is_one_line(machine, broken):
    assert machine(".ci/find-python", python3=broken) == (1, "", INSTALL)


def test_one_that_will_not_do_and_was_asked_for_is_named(machine, broken):
    assert machine(".ci/find-python", "python3.9", python3_9=broken) == (1, "", f"python3.9 will not do: {INSTALL}")


def test_the_usual_one_is_taken(machine):
    assert machine(".ci/find-python", python3=base()) == (0, "python3\n", "")


def test_one_that_will_do_is_taken_where_the_usual_one_will_not(machine, broken):
    found = machine(".ci/find-python", python3=broken, **{f"python{RUNNING.replace('.', '_')}": base()})
    assert found == (0, f"python{RUNNING}\n", "")


def test_a_version_that_is_not_there(machine):
    assert machine(".ci/find-python", "3.99", python3=base()) == (1, "", "Python 3.99 with venv is not installed\n")


def test_the_demo_says_what_to_install_and_makes_nothing(machine, broken, tmp_path):
    code, out, err = machine("make", "--silent", "demo", f"VENV={tmp_path}/made", python3=broken)
    assert (code, out) == (2, "")
    assert [line for line in err.splitlines() if not line.startswith("make: ***")] == [INSTALL.strip()]
    assert not (tmp_path / "made").exists()
