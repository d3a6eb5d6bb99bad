"""Writing a recording: whole or not at all, whatever is in the way."""

import os
from pathlib import Path

import pytest
import torch

import backprobe as bp
from asked import message
from commands import forked, printed
from stored import BYTES, DATA, holding, listed, toy

# where a recording is written


def test_saving_twice_is_refused(tmp_path):
    path = tmp_path / "rec"
    first = toy()
    first.save(path)
    before = {name: (path / name).read_bytes() for name in listed(path)}
    assert message(bp.BadOption, lambda: holding(torch.ones(3)).save(path)) == (
        f"{path} exists already\n"
        f"  asked: rec.save({str(path)!r})\n"
        "  why:   a recording replaces another only when asked to\n"
        f"  next:  rec.save({str(path)!r}, overwrite=True)"
    )
    assert {name: (path / name).read_bytes() for name in listed(path)} == before
    assert listed(tmp_path) == ["rec"]


def test_overwriting_replaces_a_recording(tmp_path):
    path = tmp_path / "rec"
    holding(torch.ones(3)).save(path, overwrite=True)
    toy().save(path, overwrite=True)
    assert list(bp.load(path)) == ["x", "w", "b", "u", "v", "return"]
    assert listed(tmp_path) == ["rec"]
    assert listed(path) == [DATA, BYTES]


@pytest.mark.parametrize("cut", [0, 10, 500])
def test_a_damaged_recording_can_be_overwritten_but_not_what_only_has_its_name(cut, tmp_path):
    path = tmp_path / "rec"
    toy().save(path)
    whole = (path / DATA).read_bytes()
    (path / DATA).write_bytes(whole[:cut])
    if cut == 500:
        toy().save(path, overwrite=True)
        assert bp.load(path)["u"].value.item() == 6.0
    else:
        with pytest.raises(bp.BadOption, match="a recording.json that holds something else"):
            toy().save(path, overwrite=True)
        assert (path / DATA).read_bytes() == whole[:cut]


def folder_of(path, **files):
    path.mkdir()
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)


@pytest.mark.parametrize(
    ("made", "found"),
    [
        (lambda path: folder_of(path), "no recording.json in it"),
        (lambda path: folder_of(path, thesis__tex="years of work"), "'thesis.tex' in it"),
        (lambda path: folder_of(path, recording__json='{"song": 1}'), "a recording.json that holds something else"),
        (lambda path: (toy().save(path), (path / "notes.txt").write_text("mine")), "'notes.txt' in it"),
        (lambda path: path.write_text("a letter"), "a file"),
        (lambda path: path.symlink_to("nowhere"), "a file"),
    ],
)
def test_what_is_not_a_recording_is_never_overwritten(made, found, tmp_path):
    path = tmp_path / "rec"
    made(path)
    before = {each: each.read_bytes() for each in sorted(tmp_path.rglob("*")) if each.is_file()}
    for overwrite, asked in ((False, ""), (True, ", overwrite=True")):
        assert message(bp.BadOption, lambda: toy().save(path, overwrite=overwrite)) == (  # noqa: B023
            f"{path} is not a recording, so it is not overwritten\n"
            f"  asked: rec.save({str(path)!r}{asked})\n"
            f"  found: {found}\n"
            "  why:   overwriting would delete it\n"
            "  next:  a path that does not exist yet"
        )
    assert {each: each.read_bytes() for each in sorted(tmp_path.rglob("*")) if each.is_file()} == before
    assert os.path.lexists(path)
    assert listed(tmp_path) == ["rec"]


def test_folders_on_the_way_are_made_and_paths_are_texts_or_path_objects(tmp_path):
    path = str(tmp_path / "a" / "b" / ("long" * 60))
    toy().save(path)
    assert bp.load(path)["u"].grad.item() == 1.0


def test_permissions_follow_the_umask(tmp_path):
    for mask, file, folder in ((0o022, 0o644, 0o755), (0o077, 0o600, 0o700), (0o002, 0o664, 0o775)):
        path = tmp_path / oct(mask)
        before = os.umask(mask)
        try:
            toy().save(path)
        finally:
            os.umask(before)
        modes = [each.stat().st_mode & 0o777 for each in (path / DATA, path / BYTES, path)]
        assert modes == [file, file, folder]


# a save that is interrupted


def test_a_file_in_the_way_leaves_nothing(tmp_path):
    (tmp_path / "a").write_text("a letter")
    assert message(bp.BadOption, lambda: toy().save(tmp_path / "a" / "rec")) == (
        f"the recording cannot be written to {tmp_path}/a/rec\n"
        f"  asked: rec.save('{tmp_path}/a/rec')\n"
        f"  found: {tmp_path}/a is a file\n"
        f"  next:  a folder that you may write to, such as your own: rec.save('{Path.home()}/rec')"
    )
    assert listed(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "a letter"


@pytest.mark.parametrize(
    ("path", "found", "next"),
    [
        ("/proc/rec", "No such file or directory", "a folder that you may write to, such as your own: "),
        ("a" * 300, "File name too long", "a shorter name"),
        ("a\0b", "the character NUL in it", "rec.save('toy.recording')"),
    ],
    ids=["not for files", "long", "NUL"],
)
def test_where_nothing_can_be_written_the_error_says_what_to_type(path, found, next, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(bp.BadOption) as caught:
        toy().save(path)
    assert caught.value.found == found and caught.value.next.startswith(next)
    with pytest.raises(bp.BadOption) as caught:
        bp.draw(toy(), path + ".svg")
    assert caught.value.found == found


LIMITED = """
import resource, signal, sys, pathlib, torch, backprobe as bp
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = pathlib.Path(sys.argv[1])
def f(x):
    return (x * 3).sum()
rec = bp.probe(f)(torch.zeros(100_000))
if sys.argv[2] == "overwrite":
    bp.probe(f)(1.0).save(folder / "rec")
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))  # a disk with no room left
try:
    rec.save(folder / "rec", overwrite=True)
except bp.BadOption as error:
    print(error.found, error.next, sorted(each.name for each in folder.iterdir()), sep="; ")
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
"""


@pytest.mark.parametrize("mode", ["new", "overwrite"])
def test_a_disk_that_is_full_leaves_what_was_there(mode, tmp_path):
    program, folder = tmp_path / "program.py", tmp_path / "folder"
    program.write_text(LIMITED)
    folder.mkdir()
    left = ["rec"] if mode == "overwrite" else []
    found, next, after = printed(forked(program, folder, mode)).strip().split("; ")
    assert found == "File too large"
    assert next == "make room on the disk, or save fewer values: bp.probe(f, ['loss', 'h.*'])"
    assert after == repr(left)
    assert listed(folder) == left
    if left:
        assert bp.load(folder / "rec")["x"].grad.item() == 3.0


@pytest.mark.parametrize("failing", [1, 2])
@pytest.mark.parametrize("error", [OSError("no"), KeyboardInterrupt()], ids=["OSError", "KeyboardInterrupt"])
def test_a_replacement_that_is_interrupted_leaves_the_old_one(failing, error, tmp_path, monkeypatch):
    """Monkeypatched: root, as whom tests may run, cannot be refused a rename for real."""
    path = tmp_path / "rec"
    toy().save(path)
    renamed, real = [], os.rename

    def rename(source, target, **options):
        renamed.append(source)
        if len(renamed) == failing:
            raise error
        return real(source, target, **options)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(bp.BadOption if isinstance(error, OSError) else KeyboardInterrupt):
        holding(torch.ones(3)).save(path, overwrite=True)
    monkeypatch.undo()
    assert listed(tmp_path) == ["rec"]
    assert list(bp.load(path)) == ["x", "w", "b", "u", "v", "return"]
