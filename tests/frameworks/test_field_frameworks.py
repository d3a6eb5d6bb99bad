"""Whole programs of TensorFlow, Keras and JAX as other people write them: what is said of each is right."""

import pytest

from field.asking import faults, programs
from sampled import without

PATHS = {path.stem: path for path in [*programs("tensorflow"), *programs("jax")]}
HEAVY = (
    "right_frozen_part", "sparse_arrays", "parameters_read_in_transformations", "right_noise_in_a_scan",
    "function_for_an_integrator", "all_masked", "check_wrong_root_slope", "right_nnx_scan_over_layers",
    "right_nnx_ensemble", "right_nnx_remat", "switch_within_an_integrator",  # as `rounded_within_an_integrator`
)  # fmt: skip
"""Programs of JAX that take seconds to compile."""


@pytest.mark.parametrize("name", without(PATHS, *HEAVY))
def test_the_answer_is_right(name, tmp_path, monkeypatch):
    assert not (wrong := faults(PATHS[name], tmp_path, monkeypatch)), "\n".join(wrong)
