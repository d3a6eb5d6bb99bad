"""Programs from public threads about PyTorch: each verdict names the cause and its lines, those and no other."""

import pytest
import torch

import threads_page
from threads import pytorch_errors, pytorch_missing, pytorch_numbers
from threads.asking import asked, bare

THREADS = [*pytorch_errors.THREADS, *pytorch_missing.THREADS, *pytorch_numbers.THREADS]
each = pytest.mark.parametrize("thread", THREADS, ids=[thread.name for thread in THREADS])


@each
def test_the_verdict_names_the_cause_and_the_lines(thread):
    torch.manual_seed(0)
    verdict = asked(thread)
    assert verdict.kinds == thread.kinds, verdict.text
    assert verdict.lines == thread.marked(verdict.lines), verdict.text
    assert [part for part in thread.says if part not in verdict.text] == [], verdict.text


@pytest.mark.parametrize("thread", pytorch_errors.THREADS, ids=[thread.name for thread in pytorch_errors.THREADS])
def test_the_program_alone_raises_the_same(thread):
    assert bare(thread) is None


def test_no_address_and_no_program_is_counted_twice():
    assert len({thread.address for thread in THREADS}) == len({thread.name for thread in THREADS}) == len(THREADS)


def test_the_stored_table_is_the_one_that_the_programs_give():
    assert threads_page.stored("PyTorch") == threads_page.section("PyTorch"), "run python tests/threads_page.py"
