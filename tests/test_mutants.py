"""Faults that ``tools/mutants.py`` plants: each changes what the package computes, and no line's number."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[1] / "tools"
SOURCE = '''"""A module."""


def sign(x: int = 0, *, name="") -> str:
    """The sign of a number."""
    if (x > 0
            and not name):
        return "plus"
    return "none" if x is None else f"{x + 1}"
'''


@pytest.fixture(scope="module")
def mutants():
    sys.path.insert(0, str(TOOLS))
    try:
        import mutants

        yield mutants
    finally:
        sys.path.remove(str(TOOLS))


@pytest.fixture
def package(tmp_path, monkeypatch, mutants):
    file = tmp_path / "signs.py"
    file.write_text(SOURCE)
    monkeypatch.setattr(mutants, "PACKAGE", tmp_path)
    return file


def test_a_fault_changes_an_expression_and_no_line_number(mutants, package):
    faults = list(mutants.planted(package))
    assert [(fault.kind, fault.old, fault.new) for fault, _ in faults] == [
        ("number", "0", "1"),
        ("and, or", "x > 0\n            and not name", "x > 0 or not name"),
        ("comparison", "x > 0", "x >= 0"),
        ("number", "0", "1"),
        ("not", "not name", "name"),
        ("text", '"plus"', "'plusXX'"),
        ("condition", '"none" if x is None else f"{x + 1}"', "f'{x + 1}' if x is None else 'none'"),
        ("comparison", "x is None", "x is not None"),
        ("text", '"none"', "'noneXX'"),
    ]
    for fault, place in faults:
        text = mutants.with_fault(package, fault, place)
        compile(text, "signs.py", "exec")
        assert text != SOURCE
        assert len(text.splitlines()) == len(SOURCE.splitlines())


def test_faults_are_planted_where_a_test_runs_and_are_the_same_for_a_seed(mutants, package):
    tests = {"signs.py": {8: ["tests/test_signs.py::test_sign"], 9: []}}
    assert [fault.old for fault, _ in mutants.chosen(tests, seed=0, count=9)] == ['"plus"']
    tests["signs.py"] = dict.fromkeys(range(1, 10), ["tests/test_signs.py::test_sign"])
    once = mutants.chosen(tests, seed=1, count=4)
    assert once == mutants.chosen(tests, seed=1, count=4)
    assert len({fault.kind for fault, _ in once}) == 4


def test_the_tests_of_a_line_are_those_that_ran_it(mutants, tmp_path):
    """The plugin needs the monitoring of Python 3.12, and says so on an older one."""
    package = tmp_path / "src" / "backprobe"
    (tmp_path / "tools").mkdir()
    package.mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tools" / "contexts.py").write_text((TOOLS / "contexts.py").read_text())
    (package / "signs.py").write_text(SOURCE)
    tests = "from signs import sign\n\ndef test_one():\n    sign(1)\n\ndef test_two():\n    sign(1)\n"
    (tmp_path / "tests" / "test_signs.py").write_text(tests)
    path = os.pathsep.join(map(str, [tmp_path / "tools", package]))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "contexts", "tests"]
    environment = os.environ | {"PYTHONPATH": path}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    if sys.version_info < (3, 12):
        assert "came with Python 3.12" in run.stderr
        return
    found = mutants.runners(tmp_path / ".contexts.json")["signs.py"]
    assert found[8] == ["tests/test_signs.py::test_one", "tests/test_signs.py::test_two"]
    assert 9 not in found
