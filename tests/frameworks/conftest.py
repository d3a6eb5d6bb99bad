"""Every test that asks for a ``framework`` runs once on each; none of them may be absent."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # what all tests share

from backends import FRAMEWORKS


@pytest.fixture(params=FRAMEWORKS)
def framework(request):
    return FRAMEWORKS[request.param]
