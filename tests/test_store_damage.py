"""Recordings that are cut, changed or forged are refused, and nothing in them is ever run."""

import hashlib
import json

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

import backprobe as bp
from asked import message
from commands import printed, python
from stored import BYTES, DATA, VALUES, check_entries, everything, holding, listed, save_in, toy

# folders that are damaged, changed, or something else


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "rec"
    everything().save(path)
    return path


@pytest.fixture
def copied(saved, tmp_path):
    path = tmp_path / "copy"
    path.mkdir()
    for name in (DATA, BYTES):
        (path / name).write_bytes((saved / name).read_bytes())
    return path


def refused(path, headline, found=None, to=None):
    """Loading is refused with this text."""
    with pytest.raises(bp.BadRecording) as caught:
        bp.load(path, to=to)
    error = caught.value
    assert error.headline == f"{path} cannot be read: {headline}"
    assert (error.asked, error.why) == (f"bp.load({str(path)!r})", "a recording is read whole or not at all")
    assert error.next
    if found is not None:
        assert error.found == found
    return error


@pytest.mark.parametrize("to", [None, "numpy"])
def test_files_that_are_cut(copied, to):
    for name in (DATA, BYTES):
        whole = (copied / name).read_bytes()
        for cut in sorted({0, 1, 2, 8, 50, *range(0, len(whole), max(len(whole) // 25, 1)), len(whole) - 1}):
            (copied / name).write_bytes(whole[:cut])
            error = refused(copied, CUT[name], to=to)
            assert name in error.found
        (copied / name).write_bytes(whole)
    assert list(bp.load(copied, to=to))


CUT = {DATA: "it is incomplete or damaged", BYTES: "it is incomplete or was changed since it was saved"}


def test_flipped_bytes_never_change_what_is_read(copied, saved):
    before = bp.load(saved)
    for name, step in ((DATA, 397), (BYTES, 103)):
        whole = (copied / name).read_bytes()
        for at in [*range(0, 140), *range(140, len(whole), step)]:
            for bit in (0x01, 0x20, 0x80):
                if at < len(whole):
                    flipped = bytearray(whole)
                    flipped[at] ^= bit
                    (copied / name).write_bytes(flipped)
                    try:
                        after = bp.load(copied)
                    except bp.BadRecording as error:
                        assert str(error).startswith(f"{copied} cannot be read: "), (name, at, bit)
                    else:
                        assert json.loads(flipped) == json.loads(whole), (name, at, bit)
                        check_entries(before, after)
        (copied / name).write_bytes(whole)


def test_missing_files_and_other_folders(copied, tmp_path):
    (copied / BYTES).unlink()
    refused(copied, "it is incomplete", f"no {BYTES} in it")
    (copied / BYTES).mkdir()
    refused(copied, "it is incomplete or damaged")
    (copied / DATA).unlink()
    refused(copied, "it is not a recording", f"no {DATA} in it")
    (copied / DATA).mkdir()
    refused(copied, "it is incomplete or damaged")
    refused(tmp_path / "nowhere", "it is not a recording", "no such folder")
    (tmp_path / "letter").write_text("a letter")
    refused(tmp_path / "letter", "it is not a recording", "a file")


@pytest.mark.parametrize("text", ["[]", "3", "null", '"x"', "{}", '{"format": "backprobe"}', '{"format": ["x"]}'])
def test_other_json_is_not_a_recording(copied, text):
    (copied / DATA).write_text(text)
    refused(copied, "it is not a recording", f"{DATA} holds something else")


@pytest.mark.parametrize("text", ["", "{", "\x00", "not json", "[" * 100_000, '{"a": 1} trailing', "NaN NaN"])
def test_what_is_not_json_is_damaged(copied, text):
    (copied / DATA).write_text(text)
    refused(copied, "it is incomplete or damaged")


AGAIN = "run the program again and save it with this backprobe, or load it with the one that wrote it"
NEWER = "load it with the backprobe that wrote it, or a newer one"


@pytest.mark.parametrize(
    "version, next",
    [
        (0, AGAIN),
        (1, AGAIN),
        (2, AGAIN),
        (3, AGAIN),
        (4, AGAIN),
        (7, AGAIN),
        (9, AGAIN),
        (11, NEWER),
        (99, NEWER),
        ("3", NEWER),
        (None, NEWER),
    ],
)
def test_another_version_says_what_to_do(copied, version, next):
    envelope = json.loads((copied / DATA).read_text())
    (copied / DATA).write_text(json.dumps(envelope | {"version": version}))
    assert message(bp.BadRecording, lambda: bp.load(copied)) == (
        f"{copied} cannot be read: it was written by another version of backprobe\n"
        f"  asked: bp.load({str(copied)!r})\n"
        f"  found: format version {version}, this backprobe reads 5, 6, 8 and 10\n"
        "  why:   a recording is read whole or not at all\n"
        f"  next:  {next}"
    )


# folders whose digests are right and whose content is made up


def digest(content):
    return hashlib.sha256(content).hexdigest()


def forge(path, change=lambda data: None, body=None, blobs=None):
    """Change what a recording says, with digests that fit."""
    envelope = json.loads((path / DATA).read_text())
    if blobs is not None:
        save_file(blobs, path / BYTES)
    data = json.loads(envelope["data"])
    data["bytes"] = digest((path / BYTES).read_bytes())
    change(data)
    body = json.dumps(data) if body is None else body
    made = envelope | {"data": body, "digest": digest(body.encode(errors="surrogatepass"))}
    (path / DATA).write_text(json.dumps(made))


def value_of(data, name="u#0"):
    entry = next(entry for entry in data["entries"] if entry["name"] == name)
    return entry["held_value"]["tensor"]


def test_forging_nothing_is_read(copied):
    forge(copied)
    assert bp.load(copied)["u#0"].value.tolist() == [2.0, 4.0]


LAYOUTS = {
    "negative stride": {"stride": [-1]},
    "negative offset": {"offset": -1},
    "beyond storage": {"offset": 10**6},
    "stride beyond storage": {"stride": [2**40]},
    "shape beyond storage": {"shape": [2**40]},
    "product beyond 64 bits": {"shape": [2**62, 2**62], "stride": [0, 2**61]},
    "length beyond 64 bits": {"shape": [2**70], "stride": [0]},
    "negative length": {"shape": [-2]},
    "one stride too many": {"stride": [1, 1]},
    "no stride": {"stride": None},
    "broken offset": {"offset": 0.5},
    "text for a length": {"shape": ["2"]},
    "unknown dtype": {"dtype": "float1"},
    "a function for a dtype": {"dtype": "load"},
    "a module for a dtype": {"dtype": "hub"},
    "objects": {"dtype": "object"},
    "a number for a dtype": {"dtype": 7},
    "unknown storage": {"storage": "storage999"},
    "a list for a storage": {"storage": []},
    "unknown layout": {"layout": "save"},
    "coo without parts": {"layout": "coo"},
    "compressed without parts": {"layout": "sparse_csr"},
}


@pytest.mark.parametrize("to", ["torch", "numpy"])
@pytest.mark.parametrize("kind", LAYOUTS)
def test_absurd_layouts_are_refused(kind, to, copied):
    forge(copied, lambda data: value_of(data).update(LAYOUTS[kind]))
    if to == "numpy" and "dtype" in LAYOUTS[kind]:
        with pytest.raises(bp.BadRecording, match="NumPy has nothing like"):
            bp.load(copied, to=to)
    else:
        error = refused(copied, "its parts do not fit together", to=to)
        assert error.found


SPARSE = {
    "index beyond the shape": lambda v: v.update(shape=[1]),
    "not coalesced at all": lambda v: v.update(coalesced=True),
    "indices of another length": lambda v: v["parts"]["indices"].update(shape=[1, 2], stride=[2, 1]),
    "indices and values exchanged": lambda v: v.update(
        parts={"indices": v["parts"]["values"], "values": v["parts"]["indices"]}
    ),
    "parts missing": lambda v: v["parts"].pop("values"),
    "more dimensions than there are": lambda v: v.update(shape=[4, 4]),
}


@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("to", ["torch", "numpy"])
def test_absurd_sparse_layouts_are_refused(kind, to, tmp_path):
    holding(VALUES["coo"]).save(tmp_path / "rec")
    forge(tmp_path / "rec", lambda data: SPARSE[kind](value_of(data, "v")))
    if (to, kind) == ("numpy", "not coalesced at all"):
        found = bp.load(tmp_path / "rec", to=to)["v"].value  # NumPy's is dense: there is nothing to get wrong
        assert found.tolist() == [3.0, 0.0, 3.0, 0.0]
    else:
        refused(tmp_path / "rec", "its parts do not fit together", to=to)


@pytest.mark.parametrize("to", ["torch", "numpy"])
@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "bsr", "bsc"])
@pytest.mark.parametrize("index", [-1, 7, 2**62])
def test_indices_outside_of_a_sparse_tensor_are_refused(kind, index, to, tmp_path):
    """PyTorch by itself would read past the end of memory."""
    path = tmp_path / "rec"
    holding(VALUES[kind]).save(path)
    data = json.loads(json.loads((path / DATA).read_text())["data"])
    parts = value_of(data, "v")["parts"]
    for part in [name for name in parts if name != "values"]:
        blobs = {name: blob.copy() for name, blob in load_file(path / BYTES).items()}
        blobs[parts[part]["storage"]].view(numpy.int64)[-1] = index
        forge(path, blobs=blobs)
        refused(path, "its parts do not fit together", to=to)
        holding(VALUES[kind]).save(path, overwrite=True)


CONTENTS = {
    "a position outside": lambda d: d["names"].update(x=99),
    "a position before the first": lambda d: d["backward"].append(-1),
    "an output outside": lambda d: d.update(outputs=[10**9]),
    "a text for a position": lambda d: d.update(outputs=["x"]),
    "true for a position": lambda d: d.update(outputs=[True]),
    "an edge from a position outside": lambda d: d["entries"][-1]["inputs"][0].update(at=99),
    "a read from before the first": lambda d: d["entries"][-1]["reads"][0].update(at=-1),
    "a partial that is not a tensor": lambda d: d["entries"][-1]["inputs"][0].update(partial={"plain": 2.0}),
    "entries missing": lambda d: d.pop("entries"),
    "entries of another kind": lambda d: d.update(entries={"a": 1}),
    "entries none": lambda d: d.update(entries=None),
    "an entry of another kind": lambda d: d["entries"].append(7),
    "names a list": lambda d: d.update(names=[1, 2]),
    "names without printed forms": lambda d: d["printed"].popitem(),
    "a name that is none": lambda d: (d["names"].update({"`x": 0}), d["printed"].update({"`x": "`x"})),
    "a name of no value": lambda d: d["entries"][0].update(name="y"),
    "an alias of no value": lambda d: d["entries"][0].update(aliases=["y"]),
    "the name of another": lambda d: d["entries"][0].update(name="k"),
    "an entry without a name": lambda d: d["entries"][0].pop("name"),
    "a number for a name": lambda d: d["entries"][0].update(name=3),
    "a list for an alias": lambda d: d["entries"][0].update(aliases=[["x"]]),
    "a number for a reason": lambda d: d["entries"][0].update(why=3),
    "a reason of no known code": lambda d: d["entries"][0].update(why={"code": "fate", "fields": {}}),
    "a reason without its fields": lambda d: d["entries"][0].update(why={"code": "dtype", "fields": {}}),
    "a number in a reason": lambda d: d["entries"][0].update(why={"code": "dtype", "fields": {"dtype": 3}}),
    "an unknown status": lambda d: d["entries"][0].update(status="fine"),
    "a text for a line": lambda d: d["entries"][0]["source"].update(line="3"),
    "a number for a file": lambda d: d["entries"][0]["source"].update(file=3),
    "another field in a source": lambda d: d["entries"][0]["source"].update(more=1),
    "a text for a shape": lambda d: d["entries"][0].update(shape=["two"]),
    "a number for a dtype": lambda d: d["entries"][0].update(dtype=3),
    "a number for a tensor": lambda d: d["entries"][0].update(held_value={"plain": 3}),
    "a text for a gradient": lambda d: d["entries"][0].update(held_grad={"plain": "3"}),
    "a value of no kind": lambda d: d["entries"][0].update(held_value={"thing": 3}),
    "a number for a value": lambda d: d["entries"][0].update(value=3),
    "a list for what was lost": lambda d: d["entries"][0].update(held_value={"lost": [1]}),
    "half a complex number": lambda d: d["entries"][0].update(held_value={"complex": [1]}),
    "more keys than values": lambda d: d.update(result={"dict": [], "keys": ["a"]}),
    "a stamp of another kind": lambda d: d["stamp"].update(more=1),
    "numbers in the stamp": lambda d: d["stamp"].update(packages={"torch": 3}),
    "numbers for notes": lambda d: d.update(notes=[3]),
    "no result": lambda d: d.pop("result"),
    "no digest of the bytes": lambda d: d.pop("bytes"),
    "an unknown backend": lambda d: d.update(backend="os"),
    "a list for a backend": lambda d: d.update(backend=["torch"]),
}


@pytest.mark.parametrize("kind", CONTENTS)
def test_absurd_contents_are_refused(kind, copied):
    forge(copied, CONTENTS[kind])
    assert refused(copied, "its parts do not fit together").found


WHERE = {
    "entries missing": "entries is None, not a list",
    "an entry of another kind": "entries[11] is 7, not an object",
    "a position outside": "names['x'] is 99, not a position among 11 entries",
    "a text for a line": "entries[0].source.line is '3', not a whole number",
    "another field in a source": "entries[0].source.more is not a field of Source",
    "a reason without its fields": "entries[0].why is Reason(code='dtype', fields={}), which has no sentence",
    "a name of no value": "entries[0] has the printed name 'y', which none of its names has",
    "numbers in the stamp": "stamp.packages['torch'] is 3, not a string",
}


@pytest.mark.parametrize("kind", WHERE)
def test_what_is_refused_says_where_it_is(kind, copied):
    forge(copied, CONTENTS[kind])
    refused(copied, "its parts do not fit together", f"{DATA}: {WHERE[kind]}")


@pytest.mark.parametrize("body", ["[]", "3", "null"])
def test_a_body_of_another_kind_is_refused(copied, body):
    forge(copied, body=body)
    refused(copied, "it is not a recording", f"{DATA} holds something else")


@pytest.mark.parametrize("body", ["", "{", "[" * 100_000, "\udc80"])
def test_a_body_that_is_not_json_is_refused(copied, body):
    forge(copied, body=body)
    refused(copied, "it is incomplete or damaged")


def test_a_storage_of_another_dtype_or_shape_is_refused(copied):
    blobs = load_file(copied / BYTES)
    name = next(iter(blobs))
    for wrong in (blobs[name][:8].view(numpy.float32), blobs[name][:8].reshape(2, 4)):
        forge(copied, blobs=blobs | {name: wrong.copy()})
        refused(copied, "it is not a recording", f"{BYTES} holds something other than bytes")


@pytest.mark.parametrize("content", [b"", b"\x00" * 8, b"\xff" * 64, b"\x10" + b"\x00" * 7 + b'{"a":{"dtype":1}}'])
def test_a_storage_that_is_not_safetensors_is_refused(copied, content):
    (copied / BYTES).write_bytes(content)
    forge(copied)
    refused(copied, "it is incomplete or damaged")


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_whatever_is_written_into_a_recording_it_is_read_or_refused(saved, tmp_path_factory, data):
    """Replace any part of the JSON by anything: the outcome is a recording that can be looked at, or BadRecording."""
    path = tmp_path_factory.mktemp("fuzz")
    for name in (DATA, BYTES):
        (path / name).write_bytes((saved / name).read_bytes())
    absurd = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 3),
        st.integers(),
        st.text(max_size=3),
        st.just([]),
        st.just({}),
        st.lists(st.integers(-2, 9), max_size=3),
        st.floats(),
        st.sampled_from(["torch", "numpy", "ok", "coo", "int8"]),
    )

    def change(content):
        at, key, here = content, None, content
        while isinstance(here, dict | list) and here and (key is None or data.draw(st.integers(0, 4))):
            at = here
            key = data.draw(st.sampled_from(sorted(here) if isinstance(here, dict) else list(range(len(here)))))
            here = at[key]
        at[key] = data.draw(absurd)

    forge(path, change)
    for to in (None, "numpy"):
        try:
            loaded = bp.load(path, to=to)
        except bp.BadRecording as error:
            assert error.headline
            continue
        assert str(loaded)
        assert loaded._repr_html_()
        for name, entry in loaded.items():
            assert name == entry.name
            assert entry.grad_or_none is None or entry.grad is entry.held_grad


# nothing is run


AUDITED = """
import sys
import torch, safetensors.numpy, backprobe as bp
bp.load(sys.argv[1], to="torch"); bp.load(sys.argv[1], to="numpy")  # so that everything is imported
import pickle
def forbidden(*args, **kwargs):
    raise AssertionError("pickle was used")
for name in ("load", "loads", "Unpickler", "_load", "_loads", "_Unpickler"):
    setattr(pickle, name, forbidden)
torch.load = forbidden
seen = []
sys.addaudithook(lambda event, args: seen.append(event))
for to in ("torch", "numpy"):
    rec = bp.load(sys.argv[1], to=to)
    assert rec["u"].value.tolist() == 6.0 and rec["u"].grad.tolist() == 1.0
    rec.result
running = ("pickle.", "exec", "compile", "import", "marshal.", "os.system", "os.exec", "os.posix_spawn", "os.fork",
           "subprocess.", "ctypes.", "code.", "function.")
print(sorted({event for event in seen if event.startswith(running)}))
print("open" in seen)
"""


def test_loading_runs_nothing(tmp_path):
    toy().save(tmp_path / "rec")
    assert printed(python("-c", AUDITED, tmp_path / "rec")) == "[]\nTrue\n"


def test_the_folder_holds_json_and_safetensors_and_nothing_else(saved):
    assert listed(saved) == [DATA, BYTES]
    envelope = json.loads((saved / DATA).read_text(encoding="ascii"))
    assert list(envelope) == ["format", "version", "digest", "data"]
    assert digest(envelope["data"].encode()) == envelope["digest"]
    assert json.loads(envelope["data"])["bytes"] == digest((saved / BYTES).read_bytes())
    assert {blob.dtype for blob in load_file(saved / BYTES).values()} == {numpy.dtype("uint8")}


# loading elsewhere


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # as if it were not installed
import backprobe as bp
rec = bp.load(sys.argv[1], to="numpy")
print(type(rec["u"].value).__module__, rec["u"].value, rec["u"].grad, rec.result, list(rec))
print(rec)
rec.save(sys.argv[1] + "-again")
print(bp.load(sys.argv[1] + "-again")["u"].grad)
try:
    bp.load(sys.argv[1])
except bp.NoBackend as error:
    print(error)
"""


def test_numpy_needs_no_torch(tmp_path):
    path = tmp_path / "rec"
    toy().save(path)
    lines = printed(python("-c", WITHOUT_TORCH, path)).splitlines()
    assert lines[0] == "numpy 6.0 1.0 7.0 ['x', 'w', 'b', 'u', 'v', 'return']"
    assert lines[1].split() == ["name", "value", "gradient", "source"]
    assert [line.split()[:3] for line in lines[2:8]] == [
        ["x", "3", "2"],
        ["w", "2", "3"],
        ["b", "1", "1"],
        ["u", "6", "1"],
        ["v", "7", "1"],
        ["return", "7", "1"],
    ]
    assert lines[8:10] == ["gradients are of return", "1.0"]
    assert lines[10] == "the framework torch is not installed"
    assert lines[11] == f"  asked: bp.load({str(path)!r})"
    assert lines[-1] == '  next:  pip install torch, or to="numpy"'


@pytest.mark.parametrize("to", ["bogus", "", "Torch", 3, "mxnet"])
def test_loading_to_what_is_not_there_is_a_clear_error(saved, to):
    assert message(bp.BadOption, lambda: bp.load(saved, to=to)) == (
        f"to is one of torch, tensorflow, jax, numpy\n  asked: to={to!r}\n  next:  to="
        + ("'torch'" if to == "Torch" else '"numpy"')
    )


def test_what_is_loaded_can_be_written_without_touching_the_folder(tmp_path):
    path = save_in(tmp_path / "rec", toy())
    for to in ("torch", "numpy"):
        value = bp.load(path, to=to)["u"].value
        value[...] = 99.0
    assert bp.load(path)["u"].value.item() == 6.0


def test_a_loaded_recording_outlives_its_folder(tmp_path):
    path = save_in(tmp_path / "rec", holding(torch.arange(5000.0)))
    loaded = [bp.load(path, to=to) for to in ("torch", "numpy")]
    for name in (DATA, BYTES):
        (path / name).write_bytes(b"")
    for recording in loaded:
        assert recording["v"].value.tolist() == list(range(5000))
