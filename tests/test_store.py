"""Recordings on disk: what comes back, bit for bit."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass, replace
from pathlib import Path

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import backprobe as bp
from asked import Parts, message, round_trip
from backprobe.record.held import Lost
from backprobe.record.reasons import Note, Reason
from stored import BIG, BYTES, DATA, VALUES, check_entries, everything, holding, same, save_in, toy


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


@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind.startswith(("float8", "float4"))])
def test_what_numpy_has_no_dtype_for_is_refused(kind, tmp_path):
    dtype = str(VALUES[kind].dtype).removeprefix("torch.")
    assert message(bp.BadRecording, lambda: round_trip(holding(VALUES[kind]), tmp_path, to="numpy")) == (
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
        lambda y: ModelOutput(loss=y),
        lambda y: Pair(y, 1),
        lambda y: OrderedDict(loss=y),
        lambda y: {1: y, "l": y},
        lambda y: [y, object()],
        lambda y: {"loss": y, "which": {1, 2}},
        lambda y: (y, numpy.float64(2)),
        holding_itself,
    ],
    ids=["ModelOutput", "namedtuple", "OrderedDict", "keys", "object", "set", "numpy number", "itself"],
)
def test_other_results_are_not_saved_and_say_so(made, tmp_path):
    def f(x):
        y = x * 2
        return made(y)

    before = bp.probe(f, of=lambda result: leaf(result))(torch.tensor(3.0))
    after = round_trip(before, tmp_path)
    check_entries(before, after)
    assert message(bp.NotSaved, lambda: after.result).startswith(
        "the result of this recording was not saved\n  asked: rec.result\n"
    )
    after.save(tmp_path / "again")
    with pytest.raises(bp.NotSaved):
        bp.load(tmp_path / "again").result


def test_a_result_that_is_none_is_saved(tmp_path):
    record = bp.Recording(toy().record, None)
    assert round_trip(record, tmp_path).result is None


# everything else that an entry and a recording have


def test_statuses_aliases_sources_and_the_order_of_backward_come_back(tmp_path):
    before = everything()
    after = round_trip(before, tmp_path)
    check_entries(before, after)
    assert {name: str(entry.status) for name, entry in after.missing().items()} == {
        "idle": "not_connected",
        "n": "not_tensor",
        "d": "detached",
        "q": "no_grad",
        "i": "not_float",
        "fixed": "frozen",
    }
    assert after.backward_order() == before.backward_order()
    assert after.backward_order()[0] == "return.loss"
    assert after["u#1"].aliases == before["u#1"].aliases
    assert "same" in after["u#1"].aliases
    assert after["u#0"].source.text == "u = x * 2"
    assert after["u#0"].source.file == everything.__code__.co_filename
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
    assert str(now.value) == message(bp.UnknownName, lambda: before["fixd"])
    assert list(after.select("u*")) == list(before.select("u*")) == ["u#0", "u#1"]
    assert dict(after.record.names) == dict(before.record.names)


def test_names_that_were_not_selected_are_suggested_after_loading(tmp_path):
    def f(x):
        u = x * 2
        v = u + 1
        return v

    after = round_trip(bp.probe(f, "u")(1.0), tmp_path)
    with pytest.raises(bp.UnknownName, match="the probe did not select it"):
        after["v"]
    assert list(after) == ["u", "return"]


ODD = Note("not_followed", {"name": "one – ü", "why": "two\nlines"})


def test_reasons_of_missing_gradients_and_lost_values_come_back(tmp_path):
    before = toy().record
    lost = replace(before.entries[3], held_value=Lost(Reason("overwritten_unseen")))
    noted = replace(
        before,
        entries=(*before.entries[:3], lost, *before.entries[4:]),
        notes=(ODD, Note("tracer_replaced", about="ü")),
    )
    after = round_trip(bp.Recording(noted), tmp_path)
    assert after.record.notes == (ODD, Note("tracer_replaced", about="ü"))
    assert after.notes[0] == "one – ü was not followed: two\nlines"
    with pytest.raises(bp.Overwritten, match="a call that backprobe cannot see into"):
        after["u"].value
    assert after["u"].grad.item() == 1.0
    mixed = everything()
    loaded = bp.load(save_in(tmp_path / "mixed", mixed))
    for name, entry in mixed.missing().items():
        with pytest.raises(bp.NoGradient) as then:
            entry.grad
        assert message(bp.NoGradient, lambda: loaded[name].grad) == str(then.value)
        assert loaded[name].grad_or_none is None


def test_a_module_that_did_not_run_and_parameters_come_back(tmp_path):
    class Model(Parts):
        def forward(self, x):
            return self.used(x).sum()

    before = bp.probe(Model(used=torch.nn.Linear(2, 1), idle=torch.nn.Linear(2, 1)))(torch.ones(3, 2))
    after = round_trip(before, tmp_path)
    check_entries(before, after)
    assert after["idle"].status is bp.GradStatus.NOT_EXECUTED
    assert not isinstance(after["used.weight"].value, torch.nn.Parameter)
    assert after["used.weight"].grad.tolist() == [[3.0, 3.0]]


def test_partials_come_back(tmp_path):
    before = toy().record
    edge = bp.Edge(0, torch.tensor([2.0, float("nan")]), name="x")
    record = replace(
        before, entries=(replace(before.entries[0], inputs=(edge, bp.Edge(1, name="w"))), *before.entries[1:])
    )
    after = round_trip(bp.Recording(record), tmp_path)
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
    before = bp.Recording(replace(toy().record, notes=(Note("already_probed", {"name": "\udcff.py"}),)), "\ud800")
    after = round_trip(before, tmp_path)
    assert (after.record.notes[0].fields["name"], after.result) == ("\udcff.py", "\ud800")


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
    assert message(bp.NotSaved, lambda: bp.probe(unsavable)(1.0, UNSAVABLE[kind]).save(tmp_path / "deep" / "rec")) == (
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


def test_a_bfloat16_scalar_loads_to_numpy(tmp_path):
    rec = bp.probe(lambda x: x * 3)(torch.tensor(2.5, dtype=torch.bfloat16))
    value = round_trip(rec, tmp_path, to="numpy")["x"].value
    assert (value.shape, value.dtype.name, float(value)) == ((), "float32", 2.5)


def test_a_recording_of_format_5_is_read():
    """It was saved when a recording had one output."""
    loaded = bp.load(Path(__file__).parent / "golden" / "format_5.recording")
    assert list(loaded) == ["x", "w", "b", "u", "d", "v", "relu()", "add()"]
    assert (loaded["x"].grad, loaded["d"].status, loaded.result["name"]) == (2.0, "detached", "toy")
    assert loaded["u"].partials == {"x": 2.0, "w": 3.0}
    assert loaded.path_sums.agree
    assert loaded.output_keys == ()
    assert bp.explain(loaded, "d").findings[0].source.text.strip() == "d = u.detach()"
