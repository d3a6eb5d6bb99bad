"""Makes the tables of docs/blocks.md from the tests: ``python tests/block_page.py`` runs them and writes the page.

A test says what it shows with a mark, ``@pytest.mark.block(claim, section)``; ``answer=`` where it is not "works".
What is written by hand stands above the tables.
"""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "blocks.md"
BELOW = """## Hard cases, as tested

Each row stands for tests that ran and passed with PyTorch; `python tests/block_page.py` makes the tables from them.
Unless a row says otherwise, names, values, statuses and gradients are right, and the program computes the same as
without a block, bit for bit.
"""


class Collected:
    """A pytest plugin that keeps what the tests claim: the answers by section and claim."""

    def __init__(self):
        self.found = {}

    def pytest_collection_finish(self, session):
        for item in session.items:
            for mark in item.iter_markers("block"):
                claim, section = mark.args
                rows = self.found.setdefault(section, {})
                answer = mark.kwargs.get("answer", "works")
                if rows.setdefault(claim, answer) != answer:
                    raise ValueError(f"{claim}: tests say {rows[claim]} and {answer}")


def tables(found):
    parts = [BELOW]
    for section, rows in sorted(found.items()):
        lines = [f"| {_cell(claim)} | {_cell(answer)} |" for claim, answer in rows.items()]
        parts.append("\n".join([f"### {section}", "", "| | what you get |", "|---|---|", *lines, ""]))
    return "\n".join(parts)


def _cell(text):
    return text.replace("|", "\\|")


def files():
    return [str(file) for file in sorted(HERE.glob("test_block_*.py")) if file.stem != "test_block_page"]


def made():
    """The page that the tests give if all of them pass."""
    plugin = Collected()
    status = pytest.main(["--collect-only", "-qq", "--no-header", "--no-summary", *files()], plugins=[plugin])
    if status != pytest.ExitCode.OK:
        raise SystemExit(status)
    return PAGE.read_text().partition(BELOW.splitlines()[0])[0] + tables(plugin.found)


def main(*arguments):
    """Write the page if every test passes; with ``--check``, only say whether the stored page is this one."""
    page = made()
    if "--check" in arguments:
        return int(PAGE.read_text() != page)
    ran = subprocess.run([sys.executable, "-m", "pytest", *files()], cwd=HERE.parent)
    if ran.returncode == 0:
        PAGE.write_text(page)
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
