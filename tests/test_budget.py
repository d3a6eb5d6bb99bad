import doctest
import json

import budget
from goldens import functions


def test_its_examples():
    assert doctest.testmod(budget) == (0, 2)


def test_each_listed_function_is_there():
    """What is renamed would have no budget, unseen: ``make seconds`` lists it anew."""
    listed = [name.split("::") for name in json.loads(budget.FILE.read_text())]
    assert [f"{file}::{name}" for file, name in listed if name not in functions(file)] == []
