"""The page about useless gradients: each program on it is explained as the page shows."""

import re
from pathlib import Path

import pytest
import torch

from commands import in_folder, invoked

PAGE = (Path(__file__).parent.parent / "docs" / "useless.md").read_text()
SHOWN = r"```python\n(.+?)```\n\n```text\n(.+?)```"
PROGRAMS = re.findall(rf"^## ([^\n]+)\n\n{SHOWN}", PAGE, re.MULTILINE | re.DOTALL)
RECORDED = re.findall(SHOWN, PAGE.partition("## Of a function or a model")[2], re.DOTALL)


@pytest.mark.parametrize("text, shown", [pytest.param(*each, id=name) for name, *each in PROGRAMS])
def test_a_program_is_explained_as_the_page_shows(text, shown, tmp_path, monkeypatch):
    torch.manual_seed(0)  # the programs draw numbers of their own
    with in_folder(tmp_path, monkeypatch, {"train.py": text}):
        code, out, _ = invoked("explain", "train.py")
    assert (code, out.rstrip()) == (1, shown.rstrip())


def test_each_fact_has_a_program():
    assert len(PROGRAMS) == 9


@pytest.mark.parametrize("text, shown", RECORDED)
def test_a_recording_is_explained_as_the_page_shows(text, shown, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("toy.py").write_text(text)
    exec(compile(text, str(tmp_path / "toy.py"), "exec"), {"__name__": "toy"})
    assert capsys.readouterr().out.rstrip() == shown.rstrip()


def test_there_are_two_of_them():
    assert len(RECORDED) == 2
