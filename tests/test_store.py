"""Recordings on disk: what comes back, bit for bit, and what is refused; whole or not at all."""

import hashlib
import json
import os
import subprocess
import sys
import warnings
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, replace

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

import backprobe as bp
from backprobe.record import Lost
from backprobe.recording import Recording

DATA, BYTES = "recording.json", "storage.safetensors"


def compressed(make):
    """A tensor in one of PyTorch's compressed layouts, which warn that they are new."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return make()


def holding(value):
    """A recording in which the entry ``v`` holds this value."""

    def f(x, make):
        u = x * 2.0
        v = make()
        return u.sum()

    return bp.probe(f)(torch.tensor([1.0, -3.0]), lambda: value)


def toy():
    def f(x, w, b):
        u = x * w
        v = u + b
        return torch.relu(v)

    return bp.probe(f)(3.0, 2.0, 1.0)


def bits(tensor):
    """Everything that makes a tensor what it is, comparable with ==."""
    head = (tensor.dtype, tensor.layout, tuple(tensor.shape))
    if tensor.layout is torch.sparse_coo:
        return (*head, tensor.is_coalesced(), bits(tensor._indices()), bits(tensor._values()))
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return (*head, bits(tensor.crow_indices()), bits(tensor.col_indices()), bits(tensor.values()))
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return (*head, bits(tensor.ccol_indices()), bits(tensor.row_indices()), bits(tensor.values()))
    plain = tensor.detach().resolve_conj().resolve_neg()
    dense = plain.contiguous().clone().reshape(-1)
    return (*head, plain.stride(), bytes(dense.view(torch.uint8).numpy()) if dense.numel() else b"")


def same(a, b):
    """Are two held things the same: tensors bit for bit, numbers with their type, lost values with their reason?"""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and bits(a) == bits(b)
    if isinstance(a, float):
        return isinstance(b, float) and a.hex() == b.hex()
    return type(a) is type(b) and a == b


def check_entries(before, after):
    assert list(after) == list(before)
    for name, entry in before.items():
        loaded = after[name]
        assert same(entry.held_value, loaded.held_value), name
        assert same(entry.held_grad, loaded.held_grad), name
        for part in ("name", "aliases", "status", "reason", "shape", "dtype", "device", "source", "op"):
            assert getattr(loaded, part) == getattr(entry, part), (name, part)
        assert [edge.name for edge in loaded.inputs] == [edge.name for edge in entry.inputs]


def round_trip(recording, folder, to=None):
    recording.save(folder / "rec")
    return bp.load(folder / "rec", to=to)


BIG = torch.arange(10_000.0)
PARTS = torch.tensor([1.5 - 2.5j, -0.0 + 0.0j, float("nan") + 1j])
VALUES = {
    "complex64": PARTS.to(torch.complex64),
    "complex128": PARTS.to(torch.complex128),
    "bfloat16": torch.tensor([1.0, -0.0, float("nan"), float("inf"), 3.14], dtype=torch.bfloat16),
    "float16": torch.tensor([1.0, 6e-8, -float("inf")], dtype=torch.float16),
    "float64": torch.tensor([1e300, 5e-324], dtype=torch.float64),
    "float8_e4m3fn": torch.tensor([1.0, 448.0, float("nan")]).to(torch.float8_e4m3fn),
    "float8_e5m2": torch.tensor([1.0, float("inf"), -3.0]).to(torch.float8_e5m2),
    "float8_e8m0fnu": torch.tensor([1.0, 2.0, 0.5]).to(torch.float8_e8m0fnu),
    "float4": torch.arange(20, dtype=torch.uint8).view(torch.float4_e2m1fn_x2),
    "bool": torch.tensor([[True], [False]]),
    "int8": torch.tensor([-128, 127], dtype=torch.int8),
    "int64": torch.tensor([-(2**63), 2**63 - 1]),
    "uint16": torch.tensor([65535, 0], dtype=torch.uint16),
    "uint64": torch.tensor([2**63 - 1, 1], dtype=torch.uint64),
    "scalar": torch.tensor(-0.0),
    "empty": torch.empty(0),
    "empty with a shape": torch.empty(1000, 0, 3),
    "empty slice of a large one": BIG[5000:5000],
    "coo": torch.sparse_coo_tensor([[0, 0, 2]], [1.0, 2.0, 3.0], (4,), check_invariants=True),
    "coo, coalesced": torch.sparse_coo_tensor([[0, 0, 2]], [1.0, 2.0, 3.0], (4,), check_invariants=True).coalesce(),
    "coo of one value": torch.sparse_coo_tensor([[3], [1]], [1.0], (4, 2), check_invariants=True),
    "coo, hybrid": torch.sparse_coo_tensor([[2, 0]], [[1.0, 2.0], [3.0, 4.0]], (3, 2), check_invariants=True),
    "coo without values": torch.sparse_coo_tensor(torch.empty(1, 0), torch.empty(0), (3,), check_invariants=True),
    "csr": compressed(lambda: torch.tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse_csr()),
    "csc": compressed(lambda: torch.tensor([[0.0, 1.0, 5.0], [2.0, 0.0, 0.0]]).to_sparse_csc()),
    "bsr": compressed(lambda: torch.arange(24.0).reshape(4, 6).to_sparse_bsr((2, 3))),
    "bsc": compressed(lambda: torch.arange(24.0).reshape(4, 6).to_sparse_bsc((2, 3))),
    "csr, batched": compressed(lambda: torch.tensor([[[0.0, 1.0]], [[2.0, 0.0]]]).to_sparse_csr()),
    "csr, of vectors": compressed(lambda: torch.arange(12.0).reshape(2, 3, 2).to_sparse_csr(dense_dim=1)),
    "transposed": torch.arange(6.0).reshape(2, 3).T,
    "permuted": torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
    "strided slice": torch.arange(30.0)[3::4],
    "expanded": torch.tensor([[2.0]]).expand(300, 300),
    "overlapping": torch.arange(10.0).unfold(0, 4, 2),
    "small view of a large one": BIG[5:7],
    "conj": torch.tensor([1 + 2j, 3 - 4j]).conj(),
    "neg": torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
    "not a number": torch.full((20,), float("nan")),
}


@pytest.mark.parametrize("kind", VALUES)
def test_every_kind_of_tensor_comes_back_bit_for_bit(kind, tmp_path):
    before = holding(VALUES[kind])
    check_entries(before, round_trip(before, tmp_path))


def dense(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg()
    tensor = tensor if tensor.layout is torch.strided else tensor.to_dense()
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()


@pytest.mark.parametrize("kind", [kind for kind in VALUES if not kind.startswith(("float8", "float4"))])
def test_every_kind_of_tensor_as_numpy(kind, tmp_path):
    loaded = round_trip(holding(VALUES[kind]), tmp_path, to="numpy")
    expected, found = dense(VALUES[kind]), loaded["v"].value
    assert type(found) is numpy.ndarray
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()
    assert loaded["x"].grad.tolist() == [2.0, 2.0]
    assert loaded["v"].dtype == str(VALUES[kind].dtype).removeprefix("torch."), "the dtype that was recorded"


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4"])
def test_what_numpy_has_no_dtype_for_is_refused(kind, tmp_path):
    with pytest.raises(bp.BadRecording) as caught:
        round_trip(holding(VALUES[kind]), tmp_path, to="numpy")
    dtype = str(VALUES[kind].dtype).removeprefix("torch.")
    assert str(caught.value) == (
        f"NumPy has nothing like {dtype}\n"
        '  asked: bp.load(path, to="numpy")\n'
        f"  found: a tensor of dtype {dtype}\n"
        '  next:  bp.load(path, to="torch")'
    )


FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)


@settings(max_examples=40, deadline=None)
@given(st.lists(FLOATS, min_size=4, max_size=4), st.sampled_from(["contiguous", "transposed", "expanded", "reversed"]))
def test_gradients_come_back_bit_for_bit(tmp_path_factory, numbers, form):
    def f(x, w):
        u = x * w
        v = torch.exp(u)
        return (v * w).sum()

    x = torch.tensor(numbers).reshape(2, 2)
    x = {"contiguous": x, "transposed": x.T, "expanded": x[:1].expand(3, 2), "reversed": x.flip(0)}[form]
    before = bp.probe(f)(x, torch.tensor([2.0, -1.0]))
    after = round_trip(before, tmp_path_factory.mktemp("grads"))
    check_entries(before, after)
    assert [name for name in before if after[name].status is bp.GradStatus.OK] == ["x", "w", "u", "v", "return"]


def shares(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def test_shared_memory_is_shared_again(tmp_path):
    def f(x):
        u = x * 2
        v = u[1]
        t = u.T
        w = x + 1
        return (v.sum() + t.sum()) * w.sum()

    before = bp.probe(f)(torch.arange(4.0).reshape(2, 2))
    after = round_trip(before, tmp_path)
    u, v, t, w = (after[name].value for name in "uvtw")
    assert shares(before["u"].value, before["v"].value)
    assert shares(u, v)
    assert shares(u, t)
    assert not shares(u, w)
    u[1, 0] = 77.0
    assert v.tolist() == [77.0, 6.0]
    assert t[0, 1] == 77.0


def test_two_views_of_an_unrecorded_tensor_share_its_memory_again_and_little_else_is_saved(tmp_path):
    large = torch.arange(1_000_000.0)

    def f(x, parts):
        a, b = parts()
        return x * 2

    after = round_trip(bp.probe(f)(1.0, lambda: (large[500:504], large[502:506])), tmp_path)
    a, b = after["a"].value, after["b"].value
    assert (a.tolist(), b.tolist()) == ([500, 501, 502, 503], [502, 503, 504, 505])
    assert shares(a, b)
    a[2] = -1.0
    assert b[0] == -1.0
    assert (tmp_path / "rec" / BYTES).stat().st_size < 5000


def test_a_lone_column_of_a_large_matrix_is_saved_without_the_rest(tmp_path):
    after = round_trip(holding(BIG.reshape(100, 100)[:, 3]), tmp_path)
    assert after["v"].value.tolist() == [3.0 + 100 * row for row in range(100)]
    assert (tmp_path / "rec" / BYTES).stat().st_size < 5000


def test_views_of_different_dtypes_share_again(tmp_path):
    def f(x):
        z = torch.complex(x, x * 2)
        parts = torch.view_as_real(z)
        return parts.sum()

    after = round_trip(bp.probe(f)(torch.tensor([1.0, 2.0])), tmp_path)
    assert shares(after["z"].value, after["parts"].value)
    assert after["parts"].value.tolist() == [[1.0, 2.0], [2.0, 4.0]]


def test_numpy_arrays_share_again_also_when_saved_again(tmp_path):
    def f(x):
        u = x * 2
        v = u[1]
        e = v.expand(3, 2)
        return u.sum() + v.sum() + e.sum()

    before = bp.probe(f)(torch.arange(4.0).reshape(2, 2))
    as_numpy = round_trip(before, tmp_path, to="numpy")
    as_numpy.save(tmp_path / "again")
    again, as_torch = bp.load(tmp_path / "again"), bp.load(tmp_path / "again", to="torch")
    for loaded in (as_numpy, again):
        assert type(loaded["u"].value) is numpy.ndarray
        assert numpy.shares_memory(loaded["u"].value, loaded["v"].value)
        assert loaded["e"].value.strides == (0, 4)
    assert list(again) == list(before)
    for name, entry in before.items():
        assert same(as_torch[name].value, entry.value), name
        assert same(as_torch[name].grad, entry.grad), name
    assert (tmp_path / "again" / BYTES).stat().st_size == (tmp_path / "rec" / BYTES).stat().st_size


@pytest.mark.parametrize(
    "kind", ["bfloat16", "coo", "csr", "bool", "scalar", "empty with a shape", "transposed", "conj"]
)
def test_a_loaded_numpy_recording_is_saved_again(kind, tmp_path):
    loaded = round_trip(holding(VALUES[kind]), tmp_path, to="numpy")
    loaded.save(tmp_path / "again")
    again = bp.load(tmp_path / "again")
    assert again["v"].value.dtype == loaded["v"].value.dtype
    assert again["v"].value.tobytes() == dense(VALUES[kind]).tobytes()
    assert str(again) == str(loaded)


def test_a_loaded_recording_is_saved_again_and_is_the_same_file(tmp_path):
    toy().save(tmp_path / "one")
    bp.load(tmp_path / "one").save(tmp_path / "two")
    for name in (DATA, BYTES):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


# what is no tensor


@pytest.mark.parametrize(
    "value", [None, True, 0, -7, 2**70, 0.1, -0.0, float("inf"), float("nan"), 1 - 2j, complex("nan-infj")], ids=repr
)
def test_plain_values_come_back_with_their_type(value, tmp_path):
    loaded = round_trip(holding(value), tmp_path)["v"]
    assert loaded.status is bp.GradStatus.NOT_TENSOR
    assert type(loaded.value) is type(value)
    assert repr(loaded.value) == repr(value)


def test_a_number_of_another_type_is_saved_as_the_number(tmp_path):
    loaded = round_trip(holding(numpy.float64(0.1)), tmp_path)["v"]
    assert (type(loaded.value), loaded.value) == (float, 0.1)


@dataclass
class ModelOutput(OrderedDict):
    loss: object = None
    logits: object = None

    def __post_init__(self):
        self.update(loss=self.loss, logits=self.logits)


Pair = namedtuple("Pair", "a b")

RESULTS = {
    "tensor": lambda y: y,
    "tuple": lambda y: (y, 3, None),
    "list": lambda y: [y, [y, "text", 1.5]],
    "dict": lambda y: {"loss": y, "state": ({"k": (True, 1j)}, [], {}, ())},
}


@pytest.mark.parametrize("kind", RESULTS)
def test_results_are_saved(kind, tmp_path):
    def f(x):
        y = x * 2
        return RESULTS[kind](y)

    before = bp.probe(f, of=lambda result: leaf(result))(torch.tensor(3.0))
    after = round_trip(before, tmp_path)

    def equal(a, b):
        assert type(a) is type(b)
        if isinstance(a, dict):
            assert list(a) == list(b)
            a, b = list(a.values()), list(b.values())
        if isinstance(a, tuple | list):
            assert len(a) == len(b)
            for one, other in zip(a, b):
                equal(one, other)
        else:
            assert same(a, b)

    equal(before.result, after.result)
    assert shares(leaf(after.result), after["y"].value)


def leaf(result):
    while not isinstance(result, torch.Tensor):
        result = next(iter(result.values())) if isinstance(result, dict) else result[0]
    return result


def holding_itself(y):
    made = [y]
    made.append(made)
    return made


@pytest.mark.parametrize(
    "made",
    [
        lambda y: ModelOutput(loss=y), lambda y: Pair(y, 1), lambda y: OrderedDict(loss=y), lambda y: {1: y, "l": y},
        lambda y: [y, object()], lambda y: {"loss": y, "which": {1, 2}}, lambda y: (y, numpy.float64(2)),
        holding_itself,
    ],
    ids=["ModelOutput", "namedtuple", "OrderedDict", "keys", "object", "set", "numpy number", "itself"],
)  # fmt: skip
def test_other_results_are_not_saved_and_say_so(made, tmp_path):
    def f(x):
        y = x * 2
        return made(y)

    before = bp.probe(f, of=lambda result: leaf(result))(torch.tensor(3.0))
    after = round_trip(before, tmp_path)
    check_entries(before, after)
    with pytest.raises(bp.NotSaved) as caught:
        after.result
    assert str(caught.value).startswith("the result of this recording was not saved\n  asked: rec.result\n")
    after.save(tmp_path / "again")
    with pytest.raises(bp.NotSaved):
        bp.load(tmp_path / "again").result


def test_a_result_that_is_none_is_saved(tmp_path):
    record = Recording(toy()._record, None)
    assert round_trip(record, tmp_path).result is None


# everything else that an entry and a recording have


def everything():
    """A recording with every status that the function form has, aliases, notes, versions and a followed function."""
    frozen = torch.tensor([1.0, 2.0])

    def inner(z):
        y = z * 3
        return y

    def f(x, idle, n):
        u = x * 2
        u.mul_(2)
        same = u
        d = u.detach()
        with torch.no_grad():
            q = u + 1
        i = u > 0
        fixed = frozen + 1
        k = inner(u)
        return {"loss": k.sum(), "ünï": "é"}

    return bp.probe(f)(torch.tensor([1.0, 2.0]), torch.tensor(5.0), 3)


def test_statuses_aliases_sources_and_the_order_of_backward_come_back(tmp_path):
    before = everything()
    after = round_trip(before, tmp_path)
    check_entries(before, after)
    assert {name: str(entry.status) for name, entry in after.missing().items()} == {
        "idle": "not_connected", "n": "not_tensor", "d": "detached", "q": "no_grad", "i": "not_float",
        "fixed": "frozen",
    }  # fmt: skip
    assert after.backward_order() == before.backward_order()
    assert after.backward_order()[0] == "return.loss"
    assert after["u#1"].aliases == before["u#1"].aliases
    assert "same" in after["u#1"].aliases
    assert after["u#0"].source.text == "u = x * 2"
    assert after["u#0"].source.file == __file__
    assert [entry.name for entry in after.outputs] == [entry.name for entry in before.outputs]
    assert (after.notes, after.stamp) == (before.notes, before.stamp)
    assert str(after) == str(before)
    assert repr(after) == repr(before)
    assert after._repr_html_() == before._repr_html_()


def test_names_are_looked_up_after_loading_as_before(tmp_path):
    before = everything()
    after = round_trip(before, tmp_path)
    for name in ("x", "same", "u#0", "u#1", "u#-1", "k", "/inner:y", "/inner", "/inner:z", "return.loss", "return"):
        assert after[name].name == before[name].name, name
    for recording in (before, after):
        with pytest.raises(bp.AmbiguousName, match="'u' means several values"):
            recording["u"]
    with pytest.raises(bp.UnknownName) as now:
        after["fixd"]
    with pytest.raises(bp.UnknownName) as then:
        before["fixd"]
    assert str(now.value) == str(then.value)
    assert list(after.select("u*")) == list(before.select("u*")) == ["u#0", "u#1"]
    assert dict(after._record.names) == dict(before._record.names)


def test_names_that_were_not_selected_are_suggested_after_loading(tmp_path):
    def f(x):
        u = x * 2
        v = u + 1
        return v

    after = round_trip(bp.probe(f, "u")(1.0), tmp_path)
    with pytest.raises(bp.UnknownName, match="the probe did not select it"):
        after["v"]
    assert list(after) == ["u", "return"]


def test_reasons_of_missing_gradients_and_lost_values_come_back(tmp_path):
    before = toy()._record
    lost = replace(before.entries[3], held_value=Lost("a kernel wrote to it"))
    noted = replace(before, entries=(*before.entries[:3], lost, *before.entries[4:]), notes=("one – ü", "two\nlines"))
    after = round_trip(Recording(noted), tmp_path)
    assert after.notes == ("one – ü", "two\nlines")
    with pytest.raises(bp.Overwritten, match="a kernel wrote to it"):
        after["u"].value
    assert after["u"].grad.item() == 1.0
    mixed = everything()
    loaded = bp.load(save_in(tmp_path / "mixed", mixed))
    for name, entry in mixed.missing().items():
        with pytest.raises(bp.NoGradient) as then:
            entry.grad
        with pytest.raises(bp.NoGradient) as now:
            loaded[name].grad
        assert str(now.value) == str(then.value)
        assert loaded[name].grad_or_none is None


def save_in(path, recording):
    recording.save(path)
    return path


def test_a_module_that_did_not_run_and_parameters_come_back(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)

        def forward(self, x):
            return self.used(x).sum()

    before = bp.probe(Model())(torch.ones(3, 2))
    after = round_trip(before, tmp_path)
    check_entries(before, after)
    assert after["idle"].status is bp.GradStatus.NOT_EXECUTED
    assert not isinstance(after["used.weight"].value, torch.nn.Parameter)
    assert after["used.weight"].grad.tolist() == [[3.0, 3.0]]


def test_partials_come_back(tmp_path):
    before = toy()._record
    edge = bp.Edge("x", torch.tensor([2.0, float("nan")]))
    record = replace(before, entries=(replace(before.entries[0], inputs=(edge, bp.Edge("w"))), *before.entries[1:]))
    after = round_trip(Recording(record), tmp_path)
    assert list(after["x"].partials) == ["x"]
    assert same(after["x"].partials["x"], edge.partial)


def test_the_stamp_comes_back(tmp_path):
    bp.stamp(author="Ada Lovelace – ü")
    try:
        before = toy()
    finally:
        bp.stamp(author="")
    after = round_trip(before, tmp_path)
    assert after.stamp == before.stamp
    assert after.stamp.author == "Ada Lovelace – ü"
    assert after.stamp.packages["torch"] == torch.__version__
    assert bp.stamp().author is None


def test_a_stamp_cannot_be_changed_through_another():
    bp.stamp().packages["torch"] = "changed"
    assert bp.stamp().packages["torch"] == torch.__version__


def test_texts_that_are_not_unicode_are_saved(tmp_path):
    """A file name of undecodable bytes reaches Python with lone surrogates."""
    before = Recording(replace(toy()._record, notes=("file \udcff.py",)), "\ud800")
    after = round_trip(before, tmp_path)
    assert (after.notes, after.result) == (("file \udcff.py",), "\ud800")


# tensors that cannot be saved


def unsavable(x, make):
    u = x * 2.0
    v = make()
    return u


UNSAVABLE = {
    "meta": lambda: torch.empty(20, device="meta"),
    "mkldnn": lambda: torch.ones(20).to_mkldnn(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
}


@pytest.mark.parametrize("kind", UNSAVABLE)
def test_what_cannot_be_saved_is_refused_before_anything_is_written(kind, tmp_path):
    with pytest.raises(bp.NotSaved) as caught:
        bp.probe(unsavable)(1.0, UNSAVABLE[kind]).save(tmp_path / "deep" / "rec")
    assert str(caught.value) == (
        f"the recording cannot be saved because of 'v': a {kind} tensor cannot be saved\n"
        "  asked: rec.save(path)\n"
        f"  found: a {kind} tensor\n"
        "  why:   a recording is saved whole or not at all\n"
        "  next:  bp.probe(..., ['**', '!v', '!/<lambda>:return']), to record without it"
    )
    assert list(tmp_path.iterdir()) == []


def test_the_advice_for_what_cannot_be_saved_works(tmp_path):
    after = round_trip(bp.probe(unsavable, ["**", "!v", "!/<lambda>:return"])(1.0, UNSAVABLE["meta"]), tmp_path)
    assert list(after) == ["x", "u"]


# where a recording is written


def listed(folder):
    return sorted(each.name for each in folder.iterdir())


def test_saving_twice_is_refused(tmp_path):
    path = tmp_path / "rec"
    first = toy()
    first.save(path)
    before = {name: (path / name).read_bytes() for name in listed(path)}
    with pytest.raises(bp.BadOption) as caught:
        holding(torch.ones(3)).save(path)
    assert str(caught.value) == (
        f"{path} exists already\n"
        f"  asked: rec.save({str(path)!r})\n"
        "  why:   a recording never replaces anything by itself\n"
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
    with pytest.raises(bp.BadOption, match="exists already"):
        toy().save(path)
    with pytest.raises(bp.BadOption) as caught:
        toy().save(path, overwrite=True)
    assert str(caught.value) == (
        f"{path} is not a recording, so it is not overwritten\n"
        f"  asked: rec.save({str(path)!r}, overwrite=True)\n"
        f"  found: {found}\n"
        "  why:   overwriting would delete it\n"
        "  next:  another path"
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
    with pytest.raises(OSError, match="a"):
        toy().save(tmp_path / "a" / "rec")
    assert listed(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "a letter"


LIMITED = """
import resource, signal, sys, pathlib, torch, backprobe as bp
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder = pathlib.Path(sys.argv[1])
def f(x):
    return (x * 3).sum()
rec = bp.probe(f)(torch.zeros(100_000))
if sys.argv[2] == "overwrite":
    bp.probe(f)(1.0).save(folder / "rec")
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))  # a disk with no room left
try:
    rec.save(folder / "rec", overwrite=True)
except Exception as error:
    print(type(error).__name__, sorted(each.name for each in folder.iterdir()))
"""


@pytest.mark.parametrize("mode", ["new", "overwrite"])
def test_a_disk_that_is_full_leaves_what_was_there(mode, tmp_path):
    program, folder = tmp_path / "program.py", tmp_path / "folder"
    program.write_text(LIMITED)
    folder.mkdir()
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(program), str(folder), mode], capture_output=True, text=True, timeout=120
    )
    assert ran.stderr == ""
    left = ["rec"] if mode == "overwrite" else []
    assert ran.stdout.split(" ", 1)[1].strip() == repr(left)
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
    with pytest.raises(type(error)):
        holding(torch.ones(3)).save(path, overwrite=True)
    monkeypatch.undo()
    assert listed(tmp_path) == ["rec"]
    assert list(bp.load(path)) == ["x", "w", "b", "u", "v", "return"]


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


CUT = {DATA: "it is cut or damaged", BYTES: "it is cut or was changed since it was saved"}


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
    refused(copied, "it is cut", f"no {BYTES} in it")
    (copied / BYTES).mkdir()
    refused(copied, "it is cut or damaged")
    (copied / DATA).unlink()
    refused(copied, "it is not a recording", f"no {DATA} in it")
    (copied / DATA).mkdir()
    refused(copied, "it is cut or damaged")
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
    refused(copied, "it is cut or damaged")


@pytest.mark.parametrize("version", [2, 99, 0, "1", None])
def test_another_version_says_what_to_do(copied, version):
    envelope = json.loads((copied / DATA).read_text())
    (copied / DATA).write_text(json.dumps(envelope | {"version": version}))
    with pytest.raises(bp.BadRecording) as caught:
        bp.load(copied)
    assert str(caught.value) == (
        f"{copied} cannot be read: it was written by another version of backprobe\n"
        f"  asked: bp.load({str(copied)!r})\n"
        f"  found: format version {version}, this backprobe reads 1\n"
        "  why:   a recording is read whole or not at all\n"
        "  next:  pip install -U backprobe"
    )


# folders whose digests are right and whose content is made up


def digest(content):
    return hashlib.sha256(content).hexdigest()


def forge(path, change=lambda data: data, body=None, blobs=None):
    """Change what a recording says, with digests that fit."""
    envelope = json.loads((path / DATA).read_text())
    if blobs is not None:
        save_file(blobs, path / BYTES)
    data = json.loads(envelope["data"])
    data["bytes"] = digest((path / BYTES).read_bytes())
    data = change(data) or data
    body = json.dumps(data) if body is None else body
    made = envelope | {"data": body, "digest": digest(body.encode(errors="surrogatepass"))}
    (path / DATA).write_text(json.dumps(made))


def value_of(data, name="u#0"):
    entry = next(entry for entry in data["entries"] if entry["name"] == name)
    return entry["value"]["tensor"]


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
    "no output": lambda d: d.update(outputs=[]),
    "a text for a position": lambda d: d.update(outputs=["x"]),
    "true for a position": lambda d: d.update(outputs=[True]),
    "entries missing": lambda d: d.pop("entries"),
    "entries of another kind": lambda d: d.update(entries={"a": 1}),
    "entries none": lambda d: d.update(entries=None),
    "an entry of another kind": lambda d: d["entries"].append(7),
    "names a list": lambda d: d.update(names=[1, 2]),
    "names without printed forms": lambda d: d["written"].popitem(),
    "a name that is none": lambda d: (d["names"].update({"`x": 0}), d["written"].update({"`x": "`x"})),
    "a name of no value": lambda d: d["entries"][0].update(name="y"),
    "an alias of no value": lambda d: d["entries"][0].update(aliases=["y"]),
    "the name of another": lambda d: d["entries"][0].update(name="k"),
    "an entry without a name": lambda d: d["entries"][0].pop("name"),
    "a number for a name": lambda d: d["entries"][0].update(name=3),
    "a list for an alias": lambda d: d["entries"][0].update(aliases=[["x"]]),
    "a number for a reason": lambda d: d["entries"][0].update(reason=3),
    "an unknown status": lambda d: d["entries"][0].update(status="fine"),
    "a text for a line": lambda d: d["entries"][0]["source"].update(line="3"),
    "a number for a file": lambda d: d["entries"][0]["source"].update(file=3),
    "another field in a source": lambda d: d["entries"][0]["source"].update(more=1),
    "a text for a shape": lambda d: d["entries"][0].update(shape=["two"]),
    "a number for a dtype": lambda d: d["entries"][0].update(dtype=3),
    "a number for a tensor": lambda d: d["entries"][0].update(value={"plain": 3}),
    "a text for a gradient": lambda d: d["entries"][0].update(grad={"plain": "3"}),
    "a value of no kind": lambda d: d["entries"][0].update(value={"thing": 3}),
    "a number for a value": lambda d: d["entries"][0].update(value=3),
    "a list for what was lost": lambda d: d["entries"][0].update(lost=[1]),
    "half a complex number": lambda d: d["entries"][0].update(value={"complex": [1]}),
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
    def change(data):
        CONTENTS[kind](data)

    forge(copied, change)
    assert refused(copied, "its parts do not fit together").found


@pytest.mark.parametrize("body", ["[]", "3", "null"])
def test_a_body_of_another_kind_is_refused(copied, body):
    forge(copied, body=body)
    refused(copied, "it is not a recording", f"{DATA} holds something else")


@pytest.mark.parametrize("body", ["", "{", "[" * 100_000, "\udc80"])
def test_a_body_that_is_not_json_is_refused(copied, body):
    forge(copied, body=body)
    refused(copied, "it is cut or damaged")


def test_a_storage_of_another_dtype_or_shape_is_refused(copied):
    blobs = load_file(copied / BYTES)
    name = next(iter(blobs))
    for wrong in (blobs[name][:8].view(numpy.float32), blobs[name][:8].reshape(2, 4)):
        forge(copied, blobs=blobs | {name: wrong.copy()})
        refused(copied, "it is not a recording", f"{BYTES} holds something else than bytes")


@pytest.mark.parametrize("content", [b"", b"\x00" * 8, b"\xff" * 64, b"\x10" + b"\x00" * 7 + b'{"a":{"dtype":1}}'])
def test_a_storage_that_is_not_safetensors_is_refused(copied, content):
    (copied / BYTES).write_bytes(content)
    forge(copied)
    refused(copied, "it is cut or damaged")


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_whatever_is_written_into_a_recording_it_is_read_or_refused(saved, tmp_path_factory, data):
    """Replace any part of the JSON by anything: the outcome is a recording that can be looked at, or BadRecording."""
    path = tmp_path_factory.mktemp("fuzz")
    for name in (DATA, BYTES):
        (path / name).write_bytes((saved / name).read_bytes())
    absurd = st.one_of(
        st.none(), st.booleans(), st.integers(-2, 3), st.integers(), st.text(max_size=3), st.just([]), st.just({}),
        st.lists(st.integers(-2, 9), max_size=3), st.floats(), st.sampled_from(["torch", "numpy", "ok", "coo", "int8"]),
    )  # fmt: skip

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
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", AUDITED, str(tmp_path / "rec")],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr) == ("[]\nTrue\n", "")


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
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_TORCH, str(path)], capture_output=True, text=True, timeout=120
    )
    assert ran.stderr == ""
    lines = ran.stdout.splitlines()
    assert lines[0] == "numpy 6.0 1.0 7.0 ['x', 'w', 'b', 'u', 'v', 'return']"
    assert lines[1].split() == ["name", "value", "gradient", "source"]
    assert [line.split()[:3] for line in lines[2:8]] == [
        ["x", "3", "2"], ["w", "2", "3"], ["b", "1", "1"], ["u", "6", "1"], ["v", "7", "1"], ["return", "7", "1"],
    ]  # fmt: skip
    assert lines[8:10] == ["gradients are of return", "1.0"]
    assert lines[10] == "the framework torch is not installed"
    assert lines[11] == f"  asked: bp.load({str(path)!r})"
    assert lines[-1] == "  next:  pip install 'backprobe[torch]', or to=\"numpy\""


@pytest.mark.parametrize("to", ["bogus", "", "Torch", 3, "jax"])
def test_loading_to_what_is_not_there_is_a_clear_error(saved, to):
    with pytest.raises(bp.BadOption) as caught:
        bp.load(saved, to=to)
    assert str(caught.value) == (
        f'a recording loads to torch or numpy, not to {to!r}\n  asked: to={to!r}\n  next:  to="numpy"'
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
