"""A module that has several paths is named by the one that its user would guess: `several_paths.py` has the models."""

import pytest

from several_paths import CASES, LIBRARIES, listed_again, unprinted

TIED = {"head.weight": "_table.weight"}  # of one parameter in two modules, the first path is printed


@pytest.mark.parametrize("case", [case for case in CASES if case.partition(",")[0] not in LIBRARIES])
def test_the_path_to_be_guessed_is_printed(case):
    wrong, _ = unprinted(case)
    assert wrong == (TIED if case == "tied" else {})


@pytest.mark.parametrize("case", [case for case in CASES if case.partition(",")[0] not in LIBRARIES])
def test_each_module_and_parameter_is_listed_once(case):
    assert listed_again(CASES[case]()[0]) == []


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # of transformers, called by PEFT
def test_the_path_of_a_table_of_words_in_peft():
    """Of the libraries the only one that `make test` installs."""
    assert unprinted("peft") == ({}, 3)
