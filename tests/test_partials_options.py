"""Partials disturb nothing and leave nothing behind; their options, and partials on disk."""

import gc
import json
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from asked import agrees, contributions, inputs, message, on, partials, round_trip
from custom import custom
from partial_cases import INF, probed, toy, vector
from small_models import small_gpt2
from stored import bits, check_entries, same

# nothing is disturbed and nothing is left behind


def noisy(x, w):
    u = F.dropout(x * w, 0.5)
    v = checkpoint(lambda u: F.dropout(torch.tanh(u), 0.5), u, use_reentrant=False)
    return (v * torch.rand(3)).sum() + u.sum()


@pytest.mark.parametrize("asked", [True, "full"])
def test_outputs_gradients_and_random_numbers_are_those_without_partials(asked):
    recordings, states = [], []
    for choice in (False, asked):
        torch.manual_seed(3)
        recordings.append(bp.probe(noisy, partials=choice)(vector(), vector(2.0, 2.0, 2.0)))
        states.append(torch.get_rng_state())
    before, after = recordings
    assert torch.equal(*states)
    assert bits(before.result) == bits(after.result)
    assert list(before) == list(after)
    assert before.backward_order() == after.backward_order()
    assert inputs(before) == inputs(after)
    for name, entry in before.items():
        assert same(entry.held, after[name].held), name
        assert same(entry.held_grad, after[name].held_grad), name
    assert before.path_sums is None
    assert {edge.partial for entry in before.values() for edge in entry.inputs} == {None}
    agrees(after, len(after.grads()))


def test_grad_is_not_touched():
    x, kept = torch.tensor(3.0, requires_grad=True), []
    x.grad = torch.tensor(42.0)
    w = torch.tensor(2.0, requires_grad=True)

    def f(x, w):
        u = x * w
        u.retain_grad()
        kept.append(u)
        v = u * 5
        return v * u

    probed(f, x, w)
    assert x.grad.item() == 42
    assert w.grad is None
    assert kept[0].grad.item() == 60  # as one backward pass leaves it


def test_the_graph_of_the_result_is_as_it_was():
    kept = []

    def f(x):
        u = x * x
        kept.append(u)
        v = torch.sin(u)
        return v

    x = torch.tensor(3.0, requires_grad=True)
    rec = probed(f, x)
    again = torch.autograd.grad(rec.result, [x, kept[0]])
    assert [gradient.item() for gradient in again] == [rec["x"].grad.item(), rec["u"].grad.item()]


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.calls = 0
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        ctx.calls += 1
        if ctx.calls == 2:
            raise RuntimeError("the second time")
        return gradient * 2


def test_nothing_is_left_behind_where_a_local_pass_raises():
    calls, kept = [], []

    def f(x):
        v = x * 3
        u = Failing.apply(v)
        u.register_hook(lambda gradient: calls.append(gradient.item()))
        r = u * 5
        kept.extend([v, u, r])
        return r

    x = torch.tensor(1.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="the second time") as caught:
        probed(f, x)
    assert any(note.startswith("backprobe: raised while differentiating f") for note in caught.value.__notes__)
    assert calls == [5]
    gradients = torch.autograd.grad(kept[2], [x, *kept[:2]])
    assert [gradient.item() for gradient in gradients] == [30, 10, 5]
    assert calls == [5, 5]


def test_no_value_outlives_the_recording():
    held = []

    def f(x):
        u = x * 2
        u.register_hook(lambda gradient: gradient * 1)
        v = u.sin()
        held.extend([weakref.ref(u), weakref.ref(v)])
        return (v * v).sum()

    gc.collect()
    gc.disable()
    try:
        rec = probed(f, vector(), partials="full")
        held += [weakref.ref(rec["v"].partials["u"]), weakref.ref(rec["v"].contributions["u"])]
        assert held[2]() is not None
        del rec
        assert [ref() for ref in held] == [None] * 4
    finally:
        gc.enable()


def test_an_edge_that_was_recorded_holds_no_graph():
    rec = probed(toy, 3.0, 2.0, 1.0)
    for entry in rec.values():
        for edge in entry.inputs:
            assert not edge.partial.requires_grad
            assert not edge.contribution.requires_grad


# options and forms


def test_a_cotangent_scales_contributions_and_not_partials():
    def f(x, w):
        u = x * w
        return torch.stack([u, u * u])

    rec = probed(f, 3.0, 2.0, cotangent=[1.0, 10.0])
    assert rec["u"].grad.item() == 121
    assert rec["u"].partials["x"].item() == 2
    assert rec["u"].contributions["x"].item() == 242
    assert rec["return"].contributions["u"].item() == 121
    agrees(rec, 4)
    doubled = probed(lambda x: x * 2, 3.0, cotangent=7.0)
    assert doubled["return"].partials["x"].item() == 2
    assert doubled["return"].contributions["x"].item() == 14


def test_the_output_is_one_of_several():
    rec = probed(lambda x: (x * 2, x * 3), 2.0, of=1)
    assert partials(rec) == {"∂return.0/∂x": 2, "∂return.1/∂x": 3}
    assert contributions(rec) == {"x←return.1": 3}
    agrees(rec, 2)


@on(2.0, of=0, partials=True).gives(contributions={"x←u": 2}, judged=2)
def test_the_output_is_also_an_inner_value(x):
    u = x * 2
    v = u * 3
    return u, v


def test_an_output_that_is_an_argument():
    rec = probed(lambda x: x, 2.0)
    assert rec["x"].inputs == ()
    agrees(rec, 1)


def test_partials_can_be_differentiated_again():
    x = torch.tensor(2.0, requires_grad=True)
    rec = probed(lambda x: x**3, x, create_graph=True)
    (second,) = torch.autograd.grad(rec["return"].partials["x"], x, retain_graph=True)
    assert (rec["return"].partials["x"].item(), second.item()) == (12, 12)
    (second,) = torch.autograd.grad(rec["return"].contributions["x"], x)
    assert second.item() == 12
    agrees(rec, 2)


def test_blocks_can_be_differentiated_again():
    x = vector(1.0, 2.0).requires_grad_()
    rec = probed(lambda x: x**3, x, create_graph=True, partials="full", cotangent=[1.0, 1.0])
    (second,) = torch.autograd.grad(rec["return"].partials["x"].sum(), x)
    assert second.tolist() == [6, 12]


def test_a_model():
    model, tokens = small_gpt2()
    patterns = ["transformer.h.*.attn", "transformer.h.0", "transformer.wte.weight", "lm_head"]
    plain = bp.probe(model, patterns, of="loss")(tokens, labels=tokens)
    rec = bp.probe(model, patterns, of="loss", partials=True)(tokens, labels=tokens)
    assert {name: bits(entry.grad) for name, entry in plain.items()} == {
        name: bits(entry.grad) for name, entry in rec.items()
    }
    assert inputs(rec) == inputs(plain)
    agrees(rec, len(rec))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(module._backward_hooks or module._forward_hooks for module in model.modules())


def test_selected_modules_lead_past_those_between():
    model, tokens = small_gpt2()
    rec = bp.probe(model, ["transformer.h.*"], of="loss", partials=True)(tokens, labels=tokens)
    assert inputs(rec)["transformer.h.1"] == ["transformer.h.0"]
    assert torch.equal(rec["transformer.h.1"].contributions["transformer.h.0"], rec["transformer.h.0"].grad)
    assert rec.outputs[0].partials["transformer.h.1"].shape == rec["transformer.h.1"].shape


def test_a_model_whose_parameters_are_frozen_in_part():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    model[0].weight.requires_grad_(False)
    rec = probed(model, torch.ones(1, 2), of=lambda output: output.sum())
    assert inputs(rec)["0"] == ["0.bias"]
    assert "0.weight" not in contributions(rec)
    agrees(rec, len(rec.grads()))


@pytest.mark.parametrize("asked", [True, "full"])
def test_a_checkpoint_has_the_partials_of_the_same_without(asked):
    def block(u):
        return torch.tanh(u) * u

    def f(x):
        u = x * 2
        v = block(u)
        return v.sum()

    def checkpointed(x):
        u = x * 2
        v = checkpoint(block, u, use_reentrant=False)
        return v.sum()

    plain, rec = (probed(g, vector(), partials=asked, select=["x", "u", "v", "return"]) for g in (f, checkpointed))
    assert partials(rec) == partials(plain)
    assert contributions(rec) == contributions(plain)
    agrees(rec, 4)


@on(vector(1.0, 2.0), partials="full", select=["x", "slope", "cubes", "return"]).gives(
    partials={"∂slope/∂x": [18, 18], "∂cubes/∂x": [[3, 0], [0, 12]], "∂return/∂slope": 9, "∂return/∂cubes": [27, 27]},
    judged=4,
)
def test_transforms_inside_have_partials_at_their_ends(x):
    slope = torch.func.grad(lambda t: t**3)(x.sum())
    cubes = torch.func.vmap(lambda t: t**3)(x)
    return slope * cubes.sum()


def test_values_inside_a_transform_have_no_edges():
    rec = probed(lambda x: torch.func.grad(lambda t: t**3)(x) * x, 2.0)
    inside = [entry for entry in rec.values() if entry.status == "opaque"]
    assert [entry.name for entry in inside] == ["/<lambda>:t", "/<lambda>:return"]
    assert {entry.inputs for entry in inside} == {()}
    assert partials(rec) == {"∂return/∂x": 36}


def test_partials_are_refused_with_another_strategy():
    assert message(bp.BadOption, lambda: bp.probe(toy, partials=True, strategy="hooks")) == (
        "partials are taken at gradient edges\n"
        "  asked: partials=True, strategy='hooks'\n"
        "  why:   the hooks of the other strategies would take part in every local pass\n"
        '  next:  strategy="edges"'
    )


def test_partials_that_were_not_asked_for_are_a_missing_attribute():
    entry = probed(toy, 3.0, 2.0, 1.0, partials=False)["u"]
    assert not hasattr(entry, "partials") and getattr(entry, "contributions", None) is None
    assert message(bp.BadOption, lambda: entry.partials) == (
        "no partials were recorded\n"
        "  asked: rec['u'].partials\n"
        "  found: a recording without partials\n"
        "  next:  bp.probe(f, partials=True)"
    )


# on disk


def everything(x, w, table):
    z = torch.view_as_real((x + 0j) * (1 + 2j))
    u = x * w
    u[0] = 7.0
    e = F.embedding(torch.tensor([0, 2]), table, sparse=True)
    unused = u * 2
    return u.sum() + z.sum() + e.sum()


@pytest.mark.parametrize("asked", [True, "full"])
def test_all_of_it_comes_back_from_disk(asked, tmp_path):
    before = probed(everything, vector(), vector(), torch.ones(3, 1), partials=asked)
    after = round_trip(before, tmp_path)
    check_entries(before, after)
    assert after.path_sums == before.path_sums
    for name, entry in before.items():
        assert after[name].reads == entry.reads
        assert after[name].source == entry.source
        for edge, loaded in zip(entry.inputs, after[name].inputs, strict=True):
            assert loaded.name == edge.name
            assert same(edge.partial, loaded.partial)
            assert same(edge.contribution, loaded.contribution)
    assert any(entry.partials for entry in after.values())


def test_it_comes_back_as_numpy_arrays(tmp_path):
    before = probed(everything, vector(), vector(), torch.ones(3, 1), partials="full")
    after = round_trip(before, tmp_path, to="numpy")
    assert after.path_sums == before.path_sums
    for name, entry in before.items():
        assert after[name].reads == entry.reads
        for kind in ("partials", "contributions"):
            found = getattr(after[name], kind)
            assert list(found) == list(getattr(entry, kind))
            for by, expected in getattr(entry, kind).items():
                assert isinstance(found[by], np.ndarray)
                assert np.array_equal(found[by], expected.numpy())


def test_a_difference_that_is_infinite_and_what_is_not_judged_come_back(tmp_path):
    Broken = custom(
        "Broken", lambda x: x.clone(), lambda gradient, x: gradient if gradient.item() == 1 else gradient * INF
    )

    def f(x):
        u = Broken.apply(x)
        v = u * 3
        v.register_hook(lambda gradient: gradient)
        return v

    before = probed(f, 1.0)
    assert (before.path_sums.difference, before.path_sums.worst, before.path_sums.unjudged) == (INF, "x", ("v",))
    assert round_trip(before, tmp_path).path_sums == before.path_sums
    json.loads((tmp_path / "rec" / "recording.json").read_text())


def test_a_recording_without_partials_comes_back_without(tmp_path):
    after = round_trip(bp.probe(toy)(3.0, 2.0, 1.0), tmp_path)
    assert after.path_sums is None
    assert {edge.partial for entry in after.values() for edge in entry.inputs} == {None}


@on(torch.tensor(3.0), select=["x", "u#1"], partials=True).gives(partials={"∂u#1/∂x": 2, "∂return/∂u#1": 14}, judged=3)
def test_a_version_that_is_not_selected_does_not_stand_between_two_that_are(x):
    u = x * 2
    u += 1
    return u**2


def test_rounding_in_a_coarser_dtype_on_the_way_is_no_disagreement():
    def f(x, w):
        u = x.float() * w.float()
        return u.double() * 1.1

    args = (torch.tensor(1.23456789, dtype=torch.float64), torch.tensor(2.3456789, dtype=torch.float64))
    assert bp.probe(f, partials=True)(*args).path_sums.agree


def test_what_is_opaque_is_not_judged_to_agree():
    def f(x):
        x = x.clone().detach().requires_grad_()
        y = (x - 1) ** 2
        with torch.no_grad():
            x -= 0.1
        return y

    rec = bp.probe(f, partials=True)(torch.tensor(3.0))
    assert rec.path_sums.judged == len(rec.grads()) == 1
