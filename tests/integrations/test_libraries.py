"""Whole programs with libraries that few people use: what is said of each is right."""

import pytest

from field.asking import faults, programs


@pytest.mark.parametrize("path", programs("libraries"), ids=lambda path: path.stem)
def test_the_answer_is_right(path, tmp_path, monkeypatch):
    """In a process of its own: here programs of two frameworks stand side by side."""
    assert not (wrong := faults(path, tmp_path, monkeypatch, in_process=False)), "\n".join(wrong)
