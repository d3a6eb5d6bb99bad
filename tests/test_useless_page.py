"""The page about useless gradients: each program on it is explained as the page shows."""

import re
from pathlib import Path

import pytest

from commands import in_folder, invoked

PAGE = (Path(__file__).parent.parent / "docs" / "useless.md").read_text()
PROGRAMS = re.findall(r"^## (.+?)\n\n```python\n(.+?)```\n\n```text\n(.+?)```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text, shown", [pytest.param(*each, id=name) for name, *each in PROGRAMS])
def test_a_program_is_explained_as_the_page_shows(text, shown, tmp_path, monkeypatch):
    with in_folder(tmp_path, monkeypatch, {"train.py": text}):
        code, out, _ = invoked("explain", "train.py")
    assert (code, out.rstrip()) == (1, shown.rstrip())


def test_each_fact_has_a_program():
    assert len(PROGRAMS) == 8
