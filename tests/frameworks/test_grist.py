"""The numerical bugs of GRIST's 63 programs: the line, the reason, and a remedy that cures, each bug in one form."""

import pytest

from grist_cases import BUGS
from grist_forms import FORMS, verdict

EACH = [(bug, FORMS[bug.framework][at % 3]) for at, bug in enumerate(BUGS)]  # grist_count.py runs each in all of them


def test_they_are_all_there():
    assert len(BUGS) == len({bug.key for bug in BUGS}) == 79
    assert len({bug.project for bug in BUGS}) == 63


@pytest.mark.parametrize(("bug", "form"), EACH, ids=[f"{bug.key}-{form}" for bug, form in EACH])
def test_line_reason_and_remedy(bug, form, tmp_path):
    _, right, report = verdict(bug, form, tmp_path)
    assert right == (True, True, True), f"{bug.project}\n{report}"
