"""No right derivative is blamed."""

import pytest

import backprobe as bp
from right_derivatives import RIGHT


@pytest.mark.parametrize("what", RIGHT)
def test_a_right_derivative_is_not_blamed(what):
    program, arguments = RIGHT[what]
    report = bp.check(program)(*arguments)
    assert report.ok, report


def test_there_are_enough_of_them():
    assert len(RIGHT) >= 100
