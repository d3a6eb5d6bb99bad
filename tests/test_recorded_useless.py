"""Functions and models of PyTorch whose gradients are useless, and healthy ones that look like them."""

import pytest

from recorded_useless import check, paths


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in paths("torch")])
def test_a_recorded_program_is_explained(path):
    check(path)
