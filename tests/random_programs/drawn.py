"""Programs that hypothesis draws, and makes smaller where one fails."""

import os
from collections.abc import Callable

from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

FRESH = any(name.startswith("RANDOM_") for name in os.environ)


def check_many(generate: Callable[[Callable[[int], int]], str], check: Callable[[str], bool], count: int) -> None:
    """Check programs until so many were judged; ``check`` gives False where there is nothing to judge.

    A normal run draws the same programs each time: a suite that is green stays green. One that asks for
    a count of its own (``RANDOM_PROGRAMS=5000`` and its like) draws others, to look for what no run has found yet.
    """

    @st.composite
    def programs(draw):
        return generate(lambda choices: draw(st.integers(0, choices - 1)) if choices > 1 else 0)

    @settings(
        max_examples=count,
        deadline=None,
        derandomize=not FRESH,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def agrees(program):
        if not check(program):
            reject()

    agrees()
