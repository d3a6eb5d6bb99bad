"""Programs in which NaN or Inf is born in operations that no table has: some are asked, and all heads are read."""

import warnings

import pytest

from births import premise, score

PATHS = {f"{path.parent.name}/{path.stem}": path for path in sorted(premise.HERE.glob("*/*.py"))}
HEADS = {name: premise.head(path.read_text()) for name, path in PATHS.items()}
SOME = ["torch/digamma_of_no_counts", "torch/slope_by_the_result", "torch/healthy_safe_logarithm"]


@pytest.mark.parametrize("name", SOME)
def test_a_program_is_as_its_head_says(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert premise.faults(PATHS[name]) == []


def test_a_premise_that_does_not_hold_is_named(tmp_path):
    (tmp_path / "torch").mkdir()
    path = tmp_path / "torch" / "moved.py"
    text = PATHS["torch/digamma_of_no_counts"].read_text()
    path.write_text(text.replace("  # <- here", "").replace("total = counts.sum()", "total = counts.sum()  # <- here"))
    assert [each.partition(" at ")[0] for each in premise.faults(path)] == ["moved.py: first seen"]


def test_the_score_asks_a_program():
    answer = score.judged(PATHS["torch/digamma_of_no_counts"])
    assert (answer.wrong, answer.line) == ("", True)
    assert score.judged(PATHS["torch/healthy_safe_logarithm"]) == score.Answer(
        PATHS["torch/healthy_safe_logarithm"], is_healthy=True
    )


def test_operands_are_the_numbers_of_an_element():
    finding = {"headline": "NaN is born: n / x at [0, 4]: 0.0 / 0.0", "cause": "", "facts": ["between 7 and 8"]}
    assert score.has_operands("0.0 / 0.0", finding)
    assert not score.has_operands("0.0 / 0.0 / 0.0", finding)
    assert not score.has_operands("4", finding)
    assert not score.has_operands("7.0", finding)


def test_half_of_the_births_are_from_other_people():
    births = {name: one for name, one in HEADS.items() if one["birth"] != "healthy"}
    assert len(births) == 60
    assert len(HEADS) - len(births) == 25
    assert sum(one["from"] != "own" for one in births.values()) >= 30
    assert all(premise.marked(PATHS[name].read_text()) for name in births)
    assert {one["birth"] for one in HEADS.values()} == {"forward", "backward", "healthy"}
