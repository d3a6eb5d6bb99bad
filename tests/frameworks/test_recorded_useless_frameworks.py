"""Functions and models of TensorFlow and JAX whose gradients are useless, and healthy ones that look like them."""

import pytest

from recorded_useless import check, paths
from sampled import one_in

PROGRAMS = [*paths("tensorflow"), *paths("jax")]


@pytest.mark.parametrize("path", one_in(2, PROGRAMS, lambda path: f"{path.parent.name}-{path.stem}"))
def test_a_recorded_program_is_explained(path):
    check(path)
