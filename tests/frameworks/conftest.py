"""Every test that asks for a ``framework`` runs once on each; none of them may be absent."""

import os
import sys
from pathlib import Path

import pytest

# Nearly half of the time of JAX's tests was XLA's compiler, on programs that run once and on a few numbers. With
# XLA_FLAGS="" it compiles as it does for users.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")
sys.path.insert(0, str(Path(__file__).parents[1]))  # what all tests share

from backends import FRAMEWORKS


@pytest.fixture(params=FRAMEWORKS)
def framework(request):
    return FRAMEWORKS[request.param]
