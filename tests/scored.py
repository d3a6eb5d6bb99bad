"""How many programs are wholly right in each form, and which are not: for folders of programs and their tests."""

from __future__ import annotations

import io
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


class Score:
    """Keeps which programs passed, by the test that ran them."""

    def __init__(self) -> None:
        self.passed: dict[str, dict[str, bool]] = defaultdict(dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file, _, test = report.location
        form, _, program = test.removeprefix("test_").partition("[")
        if program and (report.when == "call" or report.failed):
            self.passed[f"{Path(file).stem.removeprefix('test_')}, {form}"][program.rstrip("]")] = report.passed

    def __str__(self) -> str:
        return "\n".join(line for form, passed in self.passed.items() for line in _lines(form, passed))


def _lines(form: str, passed: dict[str, bool]) -> list[str]:
    failing = [program for program, right in passed.items() if not right]
    return [f"{form}: {len(passed) - len(failing)} of {len(passed)}", *(f"    {program}" for program in failing)]


def show(files: Sequence[str]) -> None:
    """Run the tests in these files, and print the score; words behind the command go to pytest."""
    score = Score()
    with redirect_stdout(io.StringIO()):
        pytest.main([*(str(TESTS / file) for file in files), "--tb=no", *sys.argv[1:]], plugins=[score])
    print(score)
