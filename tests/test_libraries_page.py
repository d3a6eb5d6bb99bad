"""The page of libraries is what the results of their suite say."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_page_is_made_of_the_results():
    made = runpy.run_path(str(ROOT / "tests" / "libraries" / "page.py"))["page"]()
    assert made == (ROOT / "docs" / "libraries.md").read_text(), "run `python tests/libraries/page.py`"


def test_each_file_of_the_suite_has_results():
    """A file without them has not run wholly, or has wrong statements."""
    folder = ROOT / "tests" / "libraries"
    files = {path.stem.removeprefix("test_") for path in folder.glob("*/test_*.py")}
    assert files == {path.stem for path in (folder / "results").glob("*.json")}
