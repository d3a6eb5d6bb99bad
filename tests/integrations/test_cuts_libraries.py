"""Programs with libraries that few people use, and a cut that no table of names can know: the cut is there."""

import subprocess
import sys

import pytest

from cuts import premise


@pytest.mark.parametrize("path", sorted((premise.HERE / "libraries").glob("*.py")), ids=lambda path: path.stem)
def test_a_program_is_as_its_head_says(path):
    ran = subprocess.run([sys.executable, premise.__file__, path], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
