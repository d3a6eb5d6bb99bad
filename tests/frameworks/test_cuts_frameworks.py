"""Programs of TensorFlow and JAX with a cut that no table of names can know, and healthy ones that have no finding."""

import warnings

import pytest

from cuts import premise
from field.asking import answered
from sampled import every

PATHS = {path.stem: path for name in ("tensorflow", "jax") for path in sorted((premise.HERE / name).glob("*.py"))}
HEALTHY = [name for name in PATHS if name.startswith("healthy_")]


@pytest.mark.parametrize("name", every(2, PATHS))
def test_a_program_is_as_its_head_says(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert premise.faults(PATHS[name]) == []


@pytest.mark.parametrize("name", every(3, HEALTHY))
def test_nothing_is_found_in_a_healthy_program(name, tmp_path, monkeypatch):
    code, said = answered(PATHS[name], "explain", tmp_path, monkeypatch)
    assert code == 0, said
