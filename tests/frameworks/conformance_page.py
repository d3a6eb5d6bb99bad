"""Makes docs/frameworks.md of the suite: ``python tests/frameworks/conformance_page.py`` runs it and writes the page.

A test says what it shows with a mark, and where the page says it:

    @pytest.mark.supports("`scan`: values stacked by step", "JAX")

It speaks for the framework that it runs on: the one of its fixture ``framework``, or that its file is named after
(``test_jax_….py``), or of ``on="torch"``. The answer is "yes", or that of ``answer="`opaque`"``. A row stands in the
page only where all of its tests have passed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "frameworks.md"
FRAMEWORKS = {"torch": "PyTorch", "tensorflow": "TensorFlow", "jax": "JAX"}
ALL_YES = dict.fromkeys(FRAMEWORKS, "yes")
FILES = {"torch": "torch", "tensorflow": "tensorflow", "keras": "tensorflow", "jax": "jax"}
INTRODUCTION = """# What each framework supports

The same functions are probed in PyTorch, TensorFlow and JAX, and give the same names, statuses, values and gradients,
and the same messages for bad input. Each line stands for tests that ran and passed on that framework; `python
tests/frameworks/conformance_page.py` makes this page from them. Of [libraries](libraries.md) that stand on these
frameworks there is a page of its own.

```{toctree}
:hidden:

libraries
```
"""
ALIKE = """## Alike in all of them
"""


@dataclass(frozen=True)
class Claim:
    """What a test that passes shows: a line of the page, and what it says in the column of a framework."""

    section: str
    text: str
    framework: str
    answer: str = "yes"


def claims(item: pytest.Item) -> Iterable[Claim]:
    """What a test claims."""
    callspec = getattr(item, "callspec", None)
    params: Mapping[str, Any] = callspec.params if callspec is not None else {}
    for mark in item.iter_markers("supports"):
        named_after = next((FILES[part] for part in item.path.stem.split("_") if part in FILES), None)
        framework = mark.kwargs.get("on") or params.get("framework") or named_after
        if framework not in FRAMEWORKS:
            raise ValueError(f"{item.nodeid} does not say which framework it speaks for: supports(…, on=…)")
        text, section = mark.args
        yield Claim(section, text, framework, mark.kwargs.get("answer", "yes"))


def page(found: Iterable[Claim]) -> str:
    """Tables of what differs, a row for each text and a column for each framework; then lists of what does not."""
    sections: dict[str, dict[str, dict[str, str]]] = {}
    for claim in found:
        row = sections.setdefault(claim.section, {}).setdefault(claim.text, {})
        if row.setdefault(claim.framework, claim.answer) != claim.answer:
            raise ValueError(f"{claim.text}: tests of {claim.framework} say {row[claim.framework]} and {claim.answer}")
    differing = {
        section: {text: row for text, row in rows.items() if row != ALL_YES} for section, rows in sections.items()
    }
    alike = {section: [text for text, row in rows.items() if row == ALL_YES] for section, rows in sections.items()}
    parts = [INTRODUCTION, *(_table(section, rows) for section, rows in differing.items() if rows)]
    parts += [ALIKE, *(_list(section, texts) for section, texts in alike.items() if texts)]
    return "\n".join(parts)


def _table(section: str, rows: Mapping[str, Mapping[str, str]]) -> str:
    lines = [f"| | {' | '.join(FRAMEWORKS.values())} |", "|---|" + "---|" * len(FRAMEWORKS)]
    lines += [
        f"| {_cell(text)} | {' | '.join(_cell(answers.get(framework, '–')) for framework in FRAMEWORKS)} |"
        for text, answers in rows.items()
    ]
    return "\n".join([f"## {section}", "", *lines, ""])


def _list(section: str, texts: Iterable[str]) -> str:
    return "\n".join([f"### {section}", "", *(f"- {text}" for text in texts), ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


@dataclass
class Collected:
    """A pytest plugin that keeps what the tests claim."""

    found: list[Claim] = field(default_factory=list)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.found = [claim for item in session.items for claim in claims(item)]


def collected() -> str:
    """The page that the suite gives if all of it passes."""
    plugin = Collected()
    status = pytest.main(["--collect-only", "-qq", "--no-header", "--no-summary", str(HERE)], plugins=[plugin])
    if status != pytest.ExitCode.OK:
        raise SystemExit(status)
    return page(plugin.found)


def main() -> int:
    """Write the page if every test passes."""
    made = collected()
    ran = subprocess.run([sys.executable, "-m", "pytest", "-n", str(os.cpu_count()), str(HERE)], cwd=PAGE.parents[1])
    if ran.returncode == 0:
        PAGE.write_text(made)
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main())
