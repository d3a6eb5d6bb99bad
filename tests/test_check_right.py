"""No right derivative is blamed."""

import pytest

import backprobe as bp
from asked import well
from right_derivatives import RIGHT
from sampled import sampled
from test_real_models import ZOO, inputs


@pytest.mark.parametrize("what", RIGHT)
def test_a_right_derivative_is_not_blamed(what):
    program, arguments = RIGHT[what]
    well(bp.check(program)(*arguments))


@pytest.mark.parametrize("name", sampled(ZOO, "llama", "vit"))
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_no_call_of_a_real_model_is_blamed(name):
    report = well(bp.check(ZOO[name]())(**inputs(name)))
    assert report.judged > 70


def test_there_are_enough_of_them():
    assert len(RIGHT) >= 100
