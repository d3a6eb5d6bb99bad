"""The page of the docs about frameworks is what the suite gives."""

import pytest
from conformance_page import INTRODUCTION, PAGE, Claim, collected, page


def test_the_stored_page_is_the_one_that_the_suite_gives():
    assert PAGE.read_text() == collected(), "run python tests/frameworks/conformance_page.py"


def test_a_page():
    made = page(
        [
            Claim("Names", "loops", "torch"),
            Claim("JAX", "`scan`", "jax", "stacked | by step"),
            *(Claim("Names", "aliases", framework) for framework in ("torch", "tensorflow", "jax", "jax")),
            Claim("Names", "loops", "jax"),
            Claim("Names", "loops", "tensorflow", "refused: `f`"),
        ]
    )
    assert made.removeprefix(INTRODUCTION) == (
        "\n## Names\n\n"
        "| | PyTorch | TensorFlow | JAX |\n|---|---|---|---|\n| loops | yes | refused: `f` | yes |\n"
        "\n## JAX\n\n"
        "| | PyTorch | TensorFlow | JAX |\n|---|---|---|---|\n| `scan` | – | – | stacked \\| by step |\n"
        "\n## Alike in all of them\n\n"
        "### Names\n\n"
        "- aliases\n"
    )


def test_two_tests_that_disagree():
    with pytest.raises(ValueError, match="loops: tests of jax say yes and `opaque`"):
        page([Claim("Names", "loops", "jax"), Claim("Names", "loops", "jax", "`opaque`")])
