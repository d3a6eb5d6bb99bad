"""CONTRIBUTING.md names the folders and files that there are."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "backprobe"
TEXT = (ROOT / "CONTRIBUTING.md").read_text()


def test_each_folder_and_file_of_the_package_has_a_sentence():
    listed = re.findall(r"^\| `([\w.]+)` \|", TEXT, re.MULTILINE)
    there = {path.name for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert len(listed) == len(set(listed))
    assert set(listed) == there - {"__init__.py", "__pycache__"}


def test_each_path_in_it_is_there():
    paths = re.findall(r"`([\w/]+/[\w.]+|[\w/]+\.(?:py|md|toml))`", TEXT)
    roots = (ROOT, PACKAGE, PACKAGE.parent, PACKAGE / "backends" / "torch")
    assert len(paths) >= 25
    assert [path for path in paths if not any((root / path).exists() for root in roots)] == []
