"""The cost of a probe in calls of Python functions: a count, which is the same on every machine and in every run."""

import pytest
from forms import EVERYTHING, OUTPUTS, SELECTIONS, BlockForm, FunctionForm, ModelForm
from models import SIZES, gpt2
from python_calls import python_calls

MOST = {
    (BlockForm, OUTPUTS): 1_060,
    (BlockForm, EVERYTHING): 7_350,
    (ModelForm, OUTPUTS): 2_990,
    (ModelForm, EVERYTHING): 9_600,
    (FunctionForm, EVERYTHING): 6_880,
}
"""The most calls of Python functions beyond those of the bare step, builtins not counted: of a GPT-2 with 2 layers, and
of a function with 200 values. Newer Pythons count fewer, since comprehensions are no functions there."""


def steps(form, selected):
    """The bare step, and the same with a probe."""
    if form is FunctionForm:
        arguments = form.arguments()
        return form.bare(*arguments), form.step(*arguments)
    program = gpt2(SIZES["small"])
    return form.bare(program), form.step(program, SELECTIONS[selected])


@pytest.fixture(autouse=True)
def known_logs_are_not_read(monkeypatch):
    """As it is without ``COMPARE_SCHEMAS``."""
    monkeypatch.setattr("backprobe.tracing.schema.compare", None)


@pytest.mark.parametrize("form, selected", MOST, ids=lambda part: getattr(part, "__name__", part))
def test_a_probe_makes_no_more_python_calls_than_this(form, selected):
    bare, probed = map(python_calls, steps(form, selected))
    assert probed.beyond(bare).functions <= MOST[form, selected]


def test_a_step_makes_the_same_calls_each_time():
    _, probed = steps(BlockForm, EVERYTHING)
    assert python_calls(probed) == python_calls(probed, warming=0)


def test_python_calls_are_counted():
    def inner():
        return len([]), abs(-1)

    def outer():
        inner()
        inner()
        return sum(number for number in (1, 2))  # a generator goes on three times

    assert python_calls(outer) == (1 + 2 + 3, 2 * 2 + 1)
