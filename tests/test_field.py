"""Whole programs of PyTorch as other people write them: what is said of each is right.

``models`` holds those of people who train, port and take apart models, and ask with the verbs for that.
"""

import pytest

from field.asking import faults, programs


@pytest.mark.parametrize("path", [*programs("torch"), *programs("models")], ids=lambda path: path.stem)
def test_the_answer_is_right(path, tmp_path, monkeypatch):
    assert not (wrong := faults(path, tmp_path, monkeypatch)), "\n".join(wrong)
