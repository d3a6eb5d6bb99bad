"""What readers of the block form found wrong, each as they wrote it."""

import copy
import inspect
import pickle
import sys
from unittest.mock import Mock

import pytest
import torch

import backprobe as bp
from backprobe.tracing import naming


def scalar(number):
    return torch.tensor(number, requires_grad=True)


def test_only_a_multiple_by_a_number_is_a_scale():
    a, b = scalar(3.0), scalar(2.0)
    with bp.probe() as rec:
        u, v = a * 1, b * 1
        r = u / v
        r.backward()
    assert rec.notes == ()
    with bp.probe() as rec:
        u = a * 1
        r = u * u
        r.backward(retain_graph=True)
        r.backward()
    assert rec.notes == ()
    with bp.probe() as rec:
        loss = a * a
        (loss * 4).backward(retain_graph=True)
        (loss * 4).backward()
    assert rec.notes == ("loss: backward() ran from 4 × this, and all gradients are of that",)
    with bp.probe() as rec:
        loss = a * a
        (loss / 4).backward()
    assert rec.notes == ("loss: backward() ran from 0.25 × this, and all gradients are of that",)


def test_objects_of_the_users_are_asked_nothing():
    x = scalar(2.0)
    stub = Mock(side_effect=lambda z: z * 2)
    walked = []

    class Walked(list):
        def __iter__(self):
            walked.append(1)
            return super().__iter__()

    with bp.probe() as rec:
        u = stub(x)
        held = Walked([u])
        u.backward()
    assert rec["u"].grad == 1
    assert rec.notes == ()
    assert not stub._mock_children
    assert walked == []
    assert "held.0" in rec["u"].aliases


def test_what_a_list_holds_already_is_not_explained_again_at_each_turn(monkeypatch):
    explained = []
    explain = naming.explain
    monkeypatch.setattr(naming, "explain", lambda *given: explained.append(1) or explain(*given))
    x = scalar(2.0)
    with bp.probe() as rec:
        held = [x]
        for _ in range(30):
            held = held + [held[-1] * 1.01]
        sum(held).backward()
    assert len(explained) <= len(rec)
    assert [read.name for read in rec["held#5.5"].reads] == ["x", "held#1.1", "held#2.2", "held#3.3", "held#4.4"]


def test_objects_that_know_each_other_are_walked_once():
    nodes = [{"v": torch.ones(1)} for _ in range(30)]
    for node in nodes:
        node["others"] = [other for other in nodes if other is not node]
    x = scalar(2.0)
    with bp.probe() as rec:
        here = nodes[0]
        u = x * 2
        u.backward()
    assert rec["here.v"].status == "frozen"
    assert len(rec) < 50


def test_blocks_that_end_in_another_order_than_they_began():
    x = torch.ones(2, requires_grad=True)
    before = sys.gettrace(), sys._getframe().f_trace
    first, second = bp.probe(), bp.probe()
    rec = first.__enter__()
    u = x * 2
    inner = second.__enter__()
    v = u * 3
    first.__exit__(None, None, None)
    w = v * 4
    w.sum().backward()
    second.__exit__(None, None, None)
    assert (sys.gettrace(), sys._getframe().f_trace) == before
    assert "w" in inner
    assert "w" not in rec
    assert rec.notes == ()
    assert inner["w"].grad.tolist() == [1, 1]


def test_leaving_a_block_that_was_never_entered():
    with pytest.raises(bp.BadOption, match="^this probe has no open block"):
        bp.probe().__exit__(None, None, None)


def test_options_that_are_not_for_blocks():
    with pytest.raises(bp.BadOption, match="session is not for blocks"):
        bp.probe(session=3).__enter__()
    with pytest.raises(bp.BadOption) as caught:
        bp.probe(of="loss").__enter__()
    assert "with bp.probe(of=...)" in str(caught.value)


def test_a_block_without_backward_says_so():
    with bp.probe() as rec:
        u = torch.ones(1) * 2
    assert "no gradients: nothing that was recorded was differentiated" in str(rec)
    assert repr(rec) == "<backprobe.Recording of nothing: 1 entries, 1 without gradient>"


# what a reader found that changed the program, or was silently wrong


def test_parameters_that_get_another_shape_or_dtype_in_the_block():
    model = torch.nn.Sequential(torch.nn.LazyLinear(3), torch.nn.Linear(3, 1))
    with bp.probe(model) as rec:
        model(torch.randn(4, 2)).sum().backward()
    assert torch.equal(rec["0.weight"].grad, model[0].weight.grad)
    with pytest.raises(bp.Overwritten):
        _ = rec["0.weight"].value
    linear = torch.nn.Linear(2, 2)
    with bp.probe(linear) as rec:
        linear.double()
        linear(torch.ones(1, 2, dtype=torch.double)).sum().backward()
    assert torch.equal(rec["weight"].grad, linear.weight.grad)
    w = torch.nn.Parameter(torch.ones(2))
    with bp.probe() as rec:
        k = w
        w.data = torch.ones(3)
        (w * 2).sum().backward()
    assert rec["w"].grad.tolist() == [2, 2, 2]
    assert rec.notes == ()


def test_memory_that_the_program_frees():
    x = torch.ones(1_000_000, requires_grad=True)
    with bp.probe() as rec:
        u = x * 1
        (u * 1).sum().backward()
        u.untyped_storage().resize_(0)
    assert torch.equal(rec["u"].value, torch.ones(1_000_000))  # copied when its memory was asked for
    with bp.probe() as rec:
        u = x * 1
        (u * 1).sum().backward()
        eval("u.untyped_storage().resize_(0)")  # which nobody sees into
    with pytest.raises(bp.Overwritten, match="is lost"):
        _ = rec["u"].value
    assert "u" in str(rec)


def test_copies_of_a_model_made_in_a_block_have_nothing_of_the_probe():
    model, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    with bp.probe(model, [":input"]) as rec:
        copies = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
        model(x).sum().backward()
    for copied in copies:
        assert torch.equal(copied(x), model(x))
        assert copied.forward.__self__ is copied
    assert "forward" not in vars(model)


def test_a_forward_that_the_user_exchanges_in_a_block_stays():
    model = torch.nn.Linear(2, 2)
    with bp.probe(model, [":input"]) as rec:
        before = model(torch.ones(1, 2))
        inner = model.forward
        model.forward = lambda given: inner(given) * 2
    assert torch.equal(model(torch.ones(1, 2)), before * 2)


class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a * 3

    @staticmethod
    def backward(ctx, gradient):
        return gradient.mul_(3)  # into what it was given


def test_a_backward_that_writes_into_its_gradient():
    def f(x):
        u = x * 2
        v = Triple.apply(u)
        w = v * 5
        return w.sum()

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with bp.probe() as rec:
        f(x).backward()
    assert rec["/f:v"].grad.tolist() == bp.probe(f)(x)["v"].grad.tolist() == [5, 5]
    assert rec["/f:u"].grad.tolist() == [15, 15]


def test_a_hook_that_writes_into_a_gradient_after_it_has_come():
    x = torch.tensor([1.0, 2.0], requires_grad=True)

    def halve(gradients):
        gradients[0].div_(2)

    with bp.probe() as rec:
        u = x * 2
        v = u * u
        u.grad_fn.register_prehook(halve)  # after ours
        v.sum().backward()
    assert rec["u"].status == "opaque"
    assert "wrote into its gradient" in rec["u"].reason


def test_a_step_written_by_hand():
    x, w = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0], requires_grad=True)
    with bp.probe() as rec:
        loss = ((x * w).sum() - 5) ** 2
        loss.backward()
        with torch.no_grad():
            w -= 0.01 * w.grad
        w.grad = None
        w.requires_grad = True
    assert rec["w#0"].grad.tolist() == [-4, -8]
    assert rec["w#1"].status == "not_connected"
    assert rec.notes == ()
    with bp.probe() as rec:
        for _ in range(2):
            ((x * w).sum() - 5).square().backward()
            with torch.no_grad():
                w -= 0.01 * w.grad
    first, second = rec["w#0"], rec["w#1"]
    assert first.grad.tolist() == (2 * ((x * first.value).sum() - 5) * x).tolist()
    assert second.grad.tolist() == (2 * ((x * second.value).sum() - 5) * x).tolist()
    assert rec["w#2"].status == "not_connected"


def test_blocks_of_one_probe_that_take_turns():
    probe, x = bp.probe(), scalar(2.0)

    def turns():
        with probe as rec:
            u = x * 2
            yield rec
            late = u * 3
            yield rec
            late.backward()

    first, second = turns(), turns()
    recordings = next(first), next(second)
    next(first)
    assert list(first) == []
    next(second)
    assert list(second) == []
    for rec in recordings:
        assert rec["late"].grad == 1
        assert rec["u"].grad == 3


def test_a_scaled_loss_in_a_block_around_a_model():
    model = torch.nn.Linear(2, 1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with bp.probe(model) as rec:
        scaler.scale(model(torch.ones(1, 2)).square().mean()).backward()
    assert len(rec.notes) == 1
    assert "all gradients are of that multiple" in rec.notes[0]


def test_the_name_to_type_next_is_a_pattern():
    model = torch.nn.Linear(2, 2)
    with pytest.raises(bp.NothingMatched) as caught, bp.probe(model, "return"):
        model(torch.ones(1, 2))
    assert "'return'" not in caught.value.next


def test_a_block_inside_of_a_backward():
    seen = []

    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, gradient):
            with torch.enable_grad(), bp.probe() as rec:
                y = torch.tensor(3.0, requires_grad=True)
                z = y * y
                z.backward()
            seen.append(rec)
            return gradient

    Inner.apply(scalar(2.0)).backward()
    assert seen[0]["y"].grad == 6
    assert [entry.name for entry in seen[0].outputs] == ["z"]


def test_a_forward_whose_locals_are_recorded_has_its_signature():
    model = torch.nn.Linear(2, 2)
    asked = inspect.signature(model.forward)
    with bp.probe(model, [":input"]):
        assert inspect.signature(model.forward) == asked
        model(torch.ones(1, 2))


def test_a_cotangent_that_is_used_again():
    x, cotangent = torch.ones(2, requires_grad=True), torch.tensor([1.0, 10.0])
    with bp.probe() as rec:
        u = x * 2
        u.backward(cotangent)
        cotangent.zero_()
    assert rec["u"].grad.tolist() == [1, 10]


def test_what_begins_to_require_a_gradient_by_an_attribute():
    x = torch.ones(2)
    with bp.probe() as rec:
        k = x
        x.requires_grad = True
        (x * 2).sum().backward()
    assert rec["k"].grad.tolist() == [2, 2]


def test_a_leaf_that_gets_its_name_only_after_backward():
    model = torch.nn.Linear(2, 1)
    with bp.probe() as rec:
        model(torch.ones(1, 2)).sum().backward()
        for name, parameter in model.named_parameters():
            size = parameter.norm().item()
    assert rec["parameter#0"].status == "backward_not_run"  # nothing of it was recorded before
    x = torch.ones(2, requires_grad=True)
    with bp.probe() as rec:
        u = model(x)
        u.sum().backward()
        weight = model.weight
    assert rec["weight"].status == "backward_not_run"  # since it got its name
    assert "only after backward() had run" in rec["weight"].reason


def test_a_place_that_is_computed():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with bp.probe() as rec:
        held, i = [x * 1, x * 2], 0
        held[i + 1] *= 2
        loss = held[1].sum()
        loss.backward()
    assert rec["held[i + 1]"].grad.tolist() == [1, 1]
    assert rec["held[i + 1]"].source.text == "held[i + 1] *= 2"


def test_a_recording_without_outputs_is_saved_and_loaded(tmp_path):
    with bp.probe() as rec:
        u = torch.ones(2) * 2
    rec.save(tmp_path / "saved")
    assert torch.equal(bp.load(tmp_path / "saved")["u"].value, u)


def test_a_leaf_to_which_nothing_comes():
    """PyTorch calls the hook of a leaf with None where a backward gives it nothing."""

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * b

        @staticmethod
        def backward(ctx, gradient):
            return gradient, None

    x, w = scalar(2.0), scalar(3.0)
    with bp.probe() as rec:
        u = Nothing.apply(x, w)
        u.backward()
    assert rec["x"].grad == 1
    assert rec["w"].status == "not_connected"
