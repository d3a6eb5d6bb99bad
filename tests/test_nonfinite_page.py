"""The table of the docs about NaN and Inf is what the programs give."""

import nonfinite_page
from nonfinite_cases import CASES


def case_of(name):
    return next(case for case in CASES if case.program.__name__ == name)


def test_the_stored_table_is_the_one_that_the_programs_give():
    assert nonfinite_page.PAGE.read_text() == nonfinite_page.made(), "run python tests/nonfinite_page.py"


def test_anomaly_mode_is_really_asked():
    case = case_of("cross_entropy")
    assert nonfinite_page.anomaly(case)[0] == "SoftmaxBackward0"
    assert nonfinite_page.verdict(case, nonfinite_page.anomaly(case)) == "blames `SoftmaxBackward0` at another line"
    assert nonfinite_page.anomaly(case_of("exp_overflow")) is None
    assert nonfinite_page.verdict(case_of("healthy"), None) == "raises nothing, rightly"
