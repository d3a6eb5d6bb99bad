"""The golden files hold what tests say, and nothing else."""

import pytest

import goldens
from goldens import FOLDER, cases, read, said, stale, written


@pytest.mark.parametrize("verb", sorted(file.stem for file in FOLDER.glob("*.txt")))
def test_each_case_is_one_of_a_test(verb):
    assert [case for case in cases(verb) if stale(case)] == []
    assert written(cases(verb)) == goldens.path(verb).read_text()


def test_a_case_without_a_test_is_stale(request):
    own = goldens.name(request.node)
    assert not stale(own)
    assert stale("test_goldens.py::test_that_was_taken_out")
    assert stale("test_taken_out.py::test_a")


def test_a_file_is_read_as_it_was_written():
    found = {"test_a.py::test_b[c d]": "one\n\n  two: 3", "test_a.py::test_b[c d] #2": "", "test_b.py::test_c": "x"}
    assert read(written(found)) == found


def test_another_text_fails_with_the_difference(monkeypatch):
    with monkeypatch.context() as within:
        within.setattr(goldens, "cases", lambda verb: {"test_x": "what was said"})
        within.setattr(goldens, "WRITES", False)
        within.setattr(goldens, "now", {"test_x": []})
        goldens.golden("explain", "what was said")
        with pytest.raises(AssertionError, match="has no case test_x #2: make golden"):
            goldens.golden("explain", "more")
        within.setattr(goldens, "now", {"test_x": []})
        with pytest.raises(AssertionError, match=r"-what was said\n\+what is said now"):
            goldens.golden("explain", "what is said now")


def test_a_case_that_its_test_does_not_say_any_more_fails(monkeypatch, request):
    own = goldens.name(request.node)
    with monkeypatch.context() as within:
        within.setattr(goldens, "by_test", lambda: {own: [("explain", own)]})
        within.setattr(goldens, "WRITES", False)
        within.setattr(goldens, "now", {})
        call = goldens.pytest_runtest_call(request.node)
        next(call)
        with pytest.raises(AssertionError, match="no test says any more"):
            call.send(None)


def test_the_text_of_a_line_stands_for_its_number(tmp_path):
    made = tmp_path / "made.py"
    made.write_text("x = 1\ny = 2\n")
    assert said(f"at {made}:2: y = 2 ({made}:1), In[2]:4") == "at made.py:*: y = 2 (made.py:[x = 1]), In[2]:*"
    assert said(f"at {made}:1: y = 2") == "at made.py:[x = 1]: y = 2"
    assert said(["one", 2]) == "one\n2"
    assert said("of norm 0.1234, 1.23457e+06 or 0.125") == "of norm …, … or 0.125"
