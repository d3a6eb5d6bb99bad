"""CONTRIBUTING.md and the design notes name folders and files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "backprobe"
TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def test_each_folder_and_file_of_the_package_has_a_sentence():
    listed = re.findall(r"^\| `([\w.]+)` \|", TEXT, re.MULTILINE)
    there = {path.name for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert len(listed) == len(set(listed))
    assert set(listed) == there - {"__init__.py", "__pycache__"}


PATH = re.compile(r"`([\w/]+/[\w.]+\.(?:py|md|toml))`")


def missing(text):
    """The paths of files in a text that do not exist."""
    roots = (ROOT, PACKAGE, PACKAGE.parent, *(folder for folder in (PACKAGE / "backends").iterdir() if folder.is_dir()))
    return [path for path in PATH.findall(text) if not any((root / path).exists() for root in roots)]


def test_each_path_in_it_exists():
    assert len(PATH.findall(TEXT)) >= 20
    assert missing(TEXT) == []
    assert missing("`probe/nowhere.py`") == ["probe/nowhere.py"]


@pytest.mark.parametrize("note", sorted((ROOT / "docs" / "design").glob("*.md")), ids=lambda note: note.stem)
def test_each_path_in_a_design_note_exists(note):
    assert missing(note.read_text()) == []
