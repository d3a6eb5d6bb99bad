"""``python tests/passes/score.py``: how many programs are wholly right in each form, and which are not.

A form is a test that runs all programs of its file. Words behind the command go to pytest: ``-k block`` takes one form.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # what all tests share

from scored import show

FILES = ("test_passes.py", "test_seeds_as_written.py", "test_none_reads.py")

if __name__ == "__main__":
    show(FILES)
