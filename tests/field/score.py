"""``python tests/field/score.py``: how many programs are wholly right in each form, and which are not.

A form is a test that runs all programs of its file. Words behind the command go to pytest: ``-k block`` takes one form.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # what all tests share

from scored import show

FILES = ("test_field.py", "frameworks/test_field_frameworks.py", "integrations/test_libraries.py")

if __name__ == "__main__":
    show(FILES)
