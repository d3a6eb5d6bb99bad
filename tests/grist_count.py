"""How many lines, reasons and remedies are right for GRIST's bugs, in every form: ``python tests/grist_count.py``."""

import os
import tempfile
import warnings
from collections import Counter
from pathlib import Path

from grist_cases import BUGS
from grist_forms import FORMS, verdict

WHAT = ("lines", "reasons", "remedies")


def counted(folder):
    """For each framework and form how many runs there are, and how many of what is right; and what is wrong."""
    runs, right, wrong = Counter(), Counter(), []
    for bug in BUGS:
        for form in FORMS[bug.framework]:
            kind = bug.framework, form
            runs[kind] += 1
            first, verdicts, _ = verdict(bug, form, folder)
            right.update((*kind, what) for what, is_right in zip(WHAT, verdicts, strict=True) if is_right)
            if not all(verdicts):
                wrong.append((bug.key, form, first, verdicts))
    return runs, right, wrong


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        runs, right, wrong = counted(Path(name))
    for kind, number in runs.items():
        print(*kind, f"{number} runs:", ", ".join(f"{right[*kind, what]} {what}" for what in WHAT))
    for one in wrong:
        print(*one)
