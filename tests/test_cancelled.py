"""What is left of gradients that cancel is said as it is: exactly 0, or rounding."""

import pytest

from cancelled import IN_TORCH, judged


@pytest.mark.parametrize("case", IN_TORCH)
def test_what_is_left_is_said_as_it_is(case, tmp_path, monkeypatch):
    assert not judged(IN_TORCH[case], tmp_path, monkeypatch)
