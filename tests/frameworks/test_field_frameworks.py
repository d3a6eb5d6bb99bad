"""Whole programs of TensorFlow, Keras and JAX as other people write them: what is said of each is right.

``ports`` holds programs of PyTorch and what they were ported to.
"""

import pytest

from field.asking import faults, programs
from sampled import without

PATHS = {path.stem: path for path in [*programs("tensorflow"), *programs("jax"), *programs("ports")]}
HEAVY = (
    "right_frozen_part",
    "sparse_arrays",
    "parameters_read_in_transformations",
    "right_noise_in_a_scan",
    "function_for_an_integrator",
    "all_masked",
    "check_wrong_root_slope",
    "right_nnx_scan_over_layers",
    "right_nnx_ensemble",
    "right_nnx_remat",
    "right_dead_within_an_integrator",
    "right_alternating_from_zero",
    "columns_less_rows",
    "scale_beyond_its_clip",
    "switch_within_an_integrator",
    "rounded_within_an_integrator",
    "softmax_before_the_loss",
    "kl_kept_as_aux",
    "constants_of_loops",
    "keras_on_jax_stops_a_branch",
)
"""Programs of JAX that take seconds to compile, again for each experiment."""


@pytest.mark.parametrize("name", without(PATHS, *HEAVY))
def test_the_answer_is_right(name, tmp_path, monkeypatch):
    assert not (wrong := faults(PATHS[name], tmp_path, monkeypatch)), "\n".join(wrong)
