"""Drawings and pages are written whole, or what was there stays."""

import os
import stat

import pytest
import torch

import backprobe as bp
from asked import message
from test_watch_files import files_up_to

KINDS = ["a.svg", "a.pdf", "a.png", "a.html"]


@pytest.fixture(scope="module")
def rec():
    def toy(x):
        h = x.sin()
        return (h * h).sum()

    return bp.probe(toy)(torch.ones(3))


def names(folder):
    return sorted(one.name for one in folder.iterdir())


@pytest.mark.parametrize("name", KINDS)
def test_what_is_there_stays_where_there_is_no_room(rec, tmp_path, name):
    path = tmp_path / name
    bp.draw(rec, path)
    good = path.read_bytes()
    with files_up_to(len(good) // 2):
        said = message(bp.BadOption, lambda: bp.draw(rec, path))
    assert said == (
        f"the drawing cannot be written to {path}\n  asked: path='{path}'\n  found: File too large\n"
        "  next:  make room on the disk, or another disk"
    )
    assert path.read_bytes() == good
    assert names(tmp_path) == [name]


@pytest.mark.parametrize("name", KINDS)
def test_no_part_of_a_new_one_is_left(rec, tmp_path, name):
    with files_up_to(100):
        message(bp.BadOption, lambda: bp.draw(rec, tmp_path / name))
    assert names(tmp_path) == []
    bp.draw(rec, tmp_path / name)
    assert names(tmp_path) == [name]


def test_a_link_stays_one_and_modes_are_kept(rec, tmp_path):
    target, link = tmp_path / "kept.svg", tmp_path / "link.svg"
    target.write_text("before")
    target.chmod(0o640)
    link.symlink_to(target)
    bp.draw(rec, link)
    assert link.is_symlink()
    assert target.read_text().startswith("<svg")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    bp.draw(rec, tmp_path / "new.svg")
    (tmp_path / "plain").touch()
    assert (tmp_path / "new.svg").stat().st_mode == (tmp_path / "plain").stat().st_mode  # as the umask has it


def test_a_pipe_is_written_into(rec, tmp_path):
    path = tmp_path / "pipe.svg"
    os.mkfifo(path)
    reading = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    bp.draw(rec, path)
    with os.fdopen(reading, "rb") as opened:
        assert opened.read().startswith(b"<svg")
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_a_folder_is_refused_as_before(rec, tmp_path):
    (tmp_path / "a.svg").mkdir()
    assert "found: Is a directory" in message(bp.BadOption, lambda: bp.draw(rec, tmp_path / "a.svg"))
    assert names(tmp_path) == ["a.svg"]
