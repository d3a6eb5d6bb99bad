"""The page of the docs about frameworks is what the suite gives."""

import subprocess
import sys

import conformance_page
import pytest
from conformance_page import Claim, page


def test_the_stored_page_is_the_one_that_the_suite_gives():
    ran = subprocess.run([sys.executable, conformance_page.__file__, "--check"], capture_output=True, text=True)
    assert ran.returncode == 0, f"run python tests/frameworks/conformance_page.py\n{ran.stdout}{ran.stderr}"


def test_a_page():
    made = page([
        Claim("Names", "loops", "torch"), Claim("JAX", "`scan`", "jax", "stacked | by step"),
        *(Claim("Names", "aliases", framework) for framework in ("torch", "tensorflow", "jax", "jax")),
        Claim("Names", "loops", "jax"), Claim("Names", "loops", "tensorflow", "refused: `f`"),
    ])  # fmt: skip
    assert made.removeprefix(conformance_page.INTRODUCTION) == (
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
