"""The cost of a probe in calls of Python functions: a count, which is the same on every machine and in every run."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from forms import EVERYTHING, OUTPUTS, SELECTIONS, BlockForm, FunctionForm, ModelForm
from models import SIZES, gpt2
from python_calls import python_calls

from backprobe.tracing import schema

MOST = {
    (BlockForm, OUTPUTS): 880,
    (BlockForm, EVERYTHING): 4_880,
    (ModelForm, OUTPUTS): 2_780,
    (ModelForm, EVERYTHING): 7_670,
    (FunctionForm, EVERYTHING): 6_450,
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


def calls(form, selected):
    """The calls of the bare step and of one with a probe, and of another of these."""
    schema.compare = None  # known logs are not read, as it is without ``COMPARE_SCHEMAS``
    bare, probed = steps(form, selected)
    return python_calls(bare), python_calls(probed), python_calls(probed, warming=0)


@pytest.fixture(scope="module")
def fresh_process():
    """A process in which no test has run: each framework that one of them has imported is asked for its tensors too."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        yield process


@pytest.mark.parametrize("form, selected", MOST, ids=lambda part: getattr(part, "__name__", part))
def test_a_probe_makes_no_more_python_calls_than_this(form, selected, fresh_process):
    bare, probed, again = fresh_process.submit(calls, form, selected).result()
    assert probed.beyond(bare).functions <= MOST[form, selected]
    assert again == probed


def test_python_calls_are_counted():
    def inner():
        return len([]), abs(-1)

    def outer():
        inner()
        inner()
        return sum(number for number in (1, 2))  # a generator goes on three times

    assert python_calls(outer) == (1 + 2 + 3, 2 * 2 + 1)
