"""Programs of PyTorch with cuts that no table of names can know: they are cut, and healthy ones have no finding."""

import warnings

import pytest

from cuts import premise
from field.asking import answered

PATHS = {path.stem: path for path in sorted((premise.HERE / "torch").glob("*.py"))}
HEALTHY = [name for name in PATHS if name.startswith("healthy_")]


@pytest.mark.parametrize("name", PATHS)
def test_a_program_is_as_its_head_says(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert premise.faults(PATHS[name]) == []


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_found_in_a_healthy_program(name, tmp_path, monkeypatch):
    code, said = answered(PATHS[name], "explain", tmp_path, monkeypatch)
    assert code == 0, said


def test_half_of_the_cuts_are_from_other_people():
    heads = [premise.head(path.read_text()) for path in premise.HERE.glob("*/*.py")]
    cuts = [one for one in heads if one["kind"] != "healthy"]
    assert len(cuts) == 40
    assert sum(one["from"] != "own" for one in cuts) >= 20
    assert {one["kind"] for one in cuts} == premise.KINDS
