"""Programs that hypothesis draws, and makes smaller where one fails."""

from collections.abc import Callable

from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st


def check_many(generate: Callable[[Callable[[int], int]], str], check: Callable[[str], bool], count: int) -> None:
    """Check programs until so many were judged; ``check`` gives False where there is nothing to judge."""

    @st.composite
    def programs(draw):
        return generate(lambda choices: draw(st.integers(0, choices - 1)) if choices > 1 else 0)

    @settings(
        max_examples=count, deadline=None, derandomize=False, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(programs())
    def agrees(program):
        if not check(program):
            reject()

    agrees()
