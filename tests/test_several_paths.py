"""A module that has several paths is named by the one that its user would guess: `several_paths.py` has the models."""

import pytest

from several_paths import CASES, LIBRARIES, unprinted

ELSEWHERE = LIBRARIES - {"peft"}  # what `make test` does not install: tests/coming_from and tests/libraries run these
TIED = {"head.weight": "_table.weight"}  # of one parameter in two modules, the first path is printed


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # of transformers, called by PEFT
@pytest.mark.parametrize("case", [case for case in CASES if case.partition(",")[0] not in ELSEWHERE])
def test_the_path_to_be_guessed_is_printed(case):
    wrong, _ = unprinted(case)
    assert wrong == (TIED if case == "tied" else {})
