"""Programs from public threads about TensorFlow, Keras and JAX, as ``tests/test_threads.py`` has those of PyTorch."""

import pytest

import threads_page
from threads import with_jax, with_tensorflow
from threads.asking import asked, bare

THREADS = [*with_tensorflow.THREADS, *with_jax.THREADS]
each = pytest.mark.parametrize("thread", THREADS, ids=[thread.name for thread in THREADS])


@each
def test_the_verdict_names_the_cause_and_the_lines(thread):
    bare(thread)
    verdict = asked(thread)
    assert verdict.kinds == thread.kinds, verdict.text
    assert verdict.lines == thread.marked(verdict.lines), verdict.text
    assert [part for part in thread.says if part not in verdict.text] == [], verdict.text


def test_there_are_sixty_threads_and_more():
    threads = [one for framework in threads_page.MODULES for one in threads_page.threads_of(framework)]
    assert len({thread.address for thread in threads}) == len(threads) >= 60


@pytest.mark.parametrize("framework", ["TensorFlow and Keras", "JAX"])
def test_the_stored_tables_are_those_that_the_programs_give(framework):
    assert threads_page.stored(framework) == threads_page.section(framework), "run python tests/threads_page.py"
