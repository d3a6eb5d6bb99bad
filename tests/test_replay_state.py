"""Each verb leaves the state of a PyTorch program as its contract says; see ``replay/score.py``."""

import pytest

from replay import page, programs_torch, score
from sampled import one_in

programs = pytest.mark.parametrize("make", programs_torch.PROGRAMS, ids=lambda make: make.__name__)
verbs = pytest.mark.parametrize("verb", score.VERBS)


@programs
def test_a_plain_call_changes_the_state_that_a_program_declares(make):
    assert score.vacuous(programs_torch, make) == []
    assert page.shown_of(programs_torch, make, page.PLAIN) == page.changed(programs_torch, make), page.STALE


@programs
@verbs
def test_a_verb_leaves_no_other_state_than_its_contract_allows(make, verb):
    wrong, found = score.left_by(programs_torch, make, verb)
    assert wrong == []
    assert page.shown_of(programs_torch, make, verb) == page.said(wrong, found), page.STALE


@pytest.mark.parametrize("make", one_in(2, programs_torch.PROGRAMS, lambda make: make.__name__))
@verbs
def test_nor_does_it_where_a_ctrl_c_comes_half_way(make, verb):
    whole = score.run(programs_torch, make, score.VERBS[verb][0])
    wrong, stopped = score.left_by(programs_torch, make, verb, at=whole.ticks // 2 + 1)
    assert wrong == []
    assert stopped.end == "KeyboardInterrupt"


def test_the_page_has_these_programs_and_no_others():
    """Each of their cells is compared above."""
    assert page.PAGE.read_text().endswith(page.tables(page.shown()))
    assert [*page.shown()["torch"]] == [*map(page.title, programs_torch.PROGRAMS)], page.STALE
