"""The examples in the docstrings of the backends that `tests/test_docs.py` leaves out."""

import doctest
import importlib
from pathlib import Path

import pytest

import backprobe

PACKAGE = Path(backprobe.__file__).parent / "backends"
MODULES = [
    ".".join(("backprobe.backends", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for folder in ("jax", "tensorflow")
    for file in sorted((PACKAGE / folder).rglob("*.py"))
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings(name):
    assert doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS).failed == 0
