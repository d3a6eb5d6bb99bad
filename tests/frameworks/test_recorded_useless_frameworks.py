"""Functions and models of TensorFlow and JAX whose gradients are useless, and healthy ones that look like them."""

import pytest

from recorded_useless import check, paths

PROGRAMS = [*paths("tensorflow"), *paths("jax")]


@pytest.mark.parametrize("path", [pytest.param(path, id=f"{path.parent.name}-{path.stem}") for path in PROGRAMS])
def test_a_recorded_program_is_explained(path):
    check(path)
