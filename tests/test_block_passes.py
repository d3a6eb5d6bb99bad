"""Passes of ``autograd.grad`` in a block: their outputs, what they asked for, and what is not one of them."""

import gc
import weakref

import pytest
import torch

import backprobe as bp
from asked import leaf, message

grad = torch.autograd.grad
pytestmark = pytest.mark.usefixtures("leaves_nothing")


def penalised():
    x = leaf(1.0, 2.0)
    with bp.probe() as rec:
        energy = (x**3).sum()
        (force,) = grad(energy, x, create_graph=True)
        loss = energy + force.square().sum()
        loss.backward()
    return rec


def test_backward_s_gradients_are_meant_where_nothing_is_said():
    rec = penalised()
    assert rec.output_keys == ("energy", "loss")
    assert rec["x"].grad.tolist() == [39.0, 300.0] and rec["x"].grads["energy"].tolist() == [3.0, 12.0]
    assert rec["force"].grads.get("energy") is None and rec["force"].grad.tolist() == [6.0, 24.0]
    assert [one.name for one in rec.outputs] == ["energy", "loss"]
    assert rec.of("loss").grads().keys() == rec.grads().keys()
    assert rec.backward_order() == rec.of("loss").backward_order()


def test_what_each_pass_asked_for():
    first, second = penalised().passes
    assert (first.output, first.call, first.inputs, first.asked) == (
        "energy",
        "autograd.grad",
        ("x",),
        ("create_graph",),
    )
    assert (second.output, second.call, second.inputs, second.has_cotangents) == ("loss", "backward()", (), False)
    assert first.source.text == "(force,) = grad(energy, x, create_graph=True)"


def test_it_is_saved_and_loaded(tmp_path):
    rec = penalised()
    rec.save(tmp_path / "rec")
    loaded = bp.load(tmp_path / "rec")
    assert loaded.passes == rec.passes and loaded.output_keys == rec.output_keys
    assert torch.equal(loaded["x"].grad, rec["x"].grad)
    assert torch.equal(loaded["x"].grads["energy"], rec["x"].grads["energy"])


def test_several_outputs_without_backward_ask_which():
    x = leaf(2.0)
    with bp.probe() as rec:
        y, z = x * x, x * 3
        grad(y, x)
        grad(z, x)
    assert rec.output_keys == ("y", "z")
    assert message(bp.NoGradient, lambda: rec["x"].grad) == (
        "'x' has a gradient of each of several outputs\n"
        "  asked: rec['x'].grad\n"
        "  found: y: ok, z: ok\n"
        "  why:   each of them has a backward pass of its own\n"
        "  next:  rec['x'].grads['y'], or rec.total()['x'].grad for that of their sum"
    )


def test_other_cotangents_are_another_output():
    x = leaf(1.0, 2.0)
    with bp.probe() as rec:
        y = x**2
        for row in torch.eye(2):
            grad(y, x, row, retain_graph=True)
        grad(y, x, torch.eye(2)[0])  # the first again
    assert rec.output_keys == ("y", "y, pass 2")
    assert [rec["x"].grads[key].tolist() for key in rec.output_keys] == [[2, 0], [0, 4]]
    assert [one.has_cotangents for one in rec.passes] == [True] * 3


def test_batched_cotangents_are_told_and_have_no_sum_with_others():
    x = leaf(1.0, 2.0)
    with bp.probe() as rec:
        y, z = x**2, x.sum()
        grad(y, x, torch.eye(2), is_grads_batched=True)
        grad(z, x)
    assert rec["x"].grads["y"].tolist() == [[2, 0], [0, 4]]
    assert (
        "y: its gradients are of 2 cotangents at once (is_grads_batched=True): their first axis counts these"
        in rec.notes
    )
    assert message(bp.BadOption, rec.total).startswith("the gradients of y are of many cotangents at once")


def test_what_lies_beyond_the_inputs_says_so():
    x, w = leaf(1.0), leaf(2.0)
    with bp.probe() as rec:
        u = x * w
        y = u * 3
        grad(y, u)
    assert rec["u"].grad.tolist() == [3.0]
    assert rec["x"].status == "not_connected"
    assert rec["x"].reason == "autograd.grad(...) goes to its inputs alone, and not by it"
    assert rec["x"].cause.text == "grad(y, u)"


def test_the_passes_of_a_probe_inside_are_its_own():
    x = leaf(3.0)
    with bp.probe() as rec:
        y = x * 2
        inner = bp.probe(lambda t: t * t)(torch.tensor([5.0]))
        bp.check(torch.sin)(torch.tensor(1.0))
        y.backward()
    assert rec.output_keys == () and rec["x"].grad.tolist() == [2.0]
    assert inner["t"].grad.tolist() == [10.0]


def test_blocks_in_a_block_each_have_their_own_passes():
    x = leaf(3.0)
    with bp.probe() as outer:
        y = x * x
        with bp.probe() as inner:
            z = y * 2
            grad(z, x, retain_graph=True)
        grad(y, x)
    assert inner.output_keys == () and inner["z"].grad.tolist() == [1.0] and inner["x"].grad.tolist() == [12.0]
    assert outer.output_keys == ("z", "y") and outer["x"].grads["y"].tolist() == [6.0]


def test_around_a_model():
    torch.manual_seed(0)
    model, x = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)), leaf(1.0, 2.0)
    parameters = list(model.parameters())
    wanted = grad(model(x).sum(), parameters)
    with bp.probe(model, ["**"]) as rec:
        grad(model(x).sum(), parameters)
    for name, gradient in zip(["0.weight", "0.bias", "2.weight", "2.bias"], wanted, strict=True):
        assert torch.equal(rec[name].grad, gradient)


def test_nothing_of_a_pass_is_held_when_the_block_is_over():
    x = leaf(1.0)
    with bp.probe() as rec:
        y = x.exp()
        (g,) = grad(y, x)
    kept = [weakref.ref(one) for one in (x, y, g)]
    del x, y, g
    gc.collect()
    assert [one() for one in kept] == [None] * 3 and rec["x"].grad is not None


def test_the_program_may_write_into_what_grad_returned():
    x = leaf(1.0)
    with bp.probe() as rec:
        u = x * 3
        y = u * u
        d_u, d_x = grad(y, (u, x))
        d_u.zero_()
        d_x.zero_()
    assert rec["u"].grad.tolist() == [6.0] and rec["x"].grad.tolist() == [18.0]


def test_an_iterator_of_inputs_is_pytorch_s_to_read():
    x = leaf(1.0)
    with bp.probe() as rec:
        y = x * 2
        (slope,) = grad(iter([y]), iter([x]))
    assert slope.tolist() == [2.0] and rec["x"].grad.tolist() == [2.0]


@pytest.mark.parametrize("partials", [True, "full"])
def test_partials_are_those_of_a_probed_function(partials):
    def f(x, w):
        u = x * w
        v = u.sin() + u
        s = v.square()
        return s

    x, w = leaf(0.5), leaf(2.0)
    alone = bp.probe(f, partials=partials)(x, w)
    with bp.probe(partials=partials) as rec:
        u = x * w
        v = u.sin() + u
        s = v.square()
        s.backward()
    for name in ("u", "v", "s"):
        assert rec[name].partials == alone[name].partials and rec[name].contributions == alone[name].contributions
    assert rec.path_sums.agree and rec.path_sums.judged == 5
    assert bp.derive(rec, "x").value == pytest.approx(alone["x"].grad.item())


def test_parameters_that_a_step_writes_have_the_gradients_of_their_own_versions():
    model = torch.nn.Linear(1, 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1.0)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with bp.probe(values="copy") as rec:
        for _ in range(3):
            loss = model(torch.ones(1, 1)).square().sum()
            for p, g in zip(model.parameters(), grad(loss, list(model.parameters())), strict=True):
                p.grad = g
            optimizer.step()
    weights = {name: one for name, one in rec.items() if name.startswith("p#") and one.shape == (1, 1)}
    assert [one.value.item() for one in weights.values()] == pytest.approx([1.0, 0.6, 0.36])
    found = [{key: one.grads[key].item() for key in one.grads} for one in weights.values()]
    assert found == [{}, {"loss#1": pytest.approx(2.4)}, {"loss#2": pytest.approx(1.44)}]


def test_random_numbers_of_a_backward_are_the_same_with_partials():
    class Noisy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * torch.rand(())

    def run(**options):
        torch.manual_seed(0)
        x = leaf(1.0)
        if not options:
            return grad(Noisy.apply(x), x)[0].item(), torch.rand(()).item()
        with bp.probe(**options):
            y = Noisy.apply(x)
            (g,) = grad(y, x)
            return g.item(), torch.rand(()).item()

    assert run(partials=True) == run(partials="full") == run(values="alias") == run()


def test_blocks_of_edges_that_do_not_fit_are_left_out():
    x = leaf(1.0, 2.0)
    with bp.probe(partials="full") as rec:
        y = x * 2
        a = y[:1]
        a.add_(1)
        z = y.sin()
        grad(z, x, torch.eye(2), is_grads_batched=True)
    assert rec["z"].partials and rec["x"].grad.shape == (2, 2)
    assert message(bp.BadOption, rec.conflicts).startswith("conflicts are between the gradients of several outputs")


def test_a_pass_that_raised_has_not_reached_its_inputs():
    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            raise ValueError("no")

    x = leaf(1.0)
    with pytest.raises(ValueError, match="no"), bp.probe() as rec:
        y = Failing.apply(x)
        grad(y, x)
    assert rec["x"].status == "backward_not_run" and rec["x"].why.code == "backward_cut_short"


def test_outputs_beyond_the_first_hundred_are_told():
    x = leaf(1.0)
    with bp.probe() as rec:
        for scale in range(103):
            y = (x * scale).sum()
            grad(y, x)
    assert len(rec.output_keys) == 100
    assert any("those of 3 calls after the first 100 outputs are not kept" in note for note in rec.notes)


def test_an_edge_to_a_leaf_brings_the_gradient_of_its_last_version():
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    optimizer, x = torch.optim.SGD(net.parameters(), lr=0.1), torch.randn(5, 4)
    with bp.probe() as rec:
        for p in net.parameters():
            p.grad = torch.ones_like(p)
        optimizer.step()
        out = net(x)
        loss = out.sum()
        grads = torch.autograd.grad(loss, list(net.parameters()))
        for p, g in zip(net.parameters(), grads, strict=True):
            p.grad = g
    assert str(rec["p#0"].status) == "not_connected" and rec["out"].grad is not None
    assert not bp.explain(rec).findings


@pytest.mark.parametrize("asked", ["torch.autograd.grad", "derive"])
def test_the_call_that_raises_is_not_a_line_that_cut_its_own_output(asked):
    derive = torch.autograd.grad
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError) as caught, bp.probe():
        y = (x**3).sum()
        (g,) = derive(y, x)
        if asked == "derive":
            derive(g.sum(), x)
        else:
            torch.autograd.grad(g.sum(), x)
    note = "\n".join(caught.value.__notes__)
    assert note.count("cut: ") == 1 and "derive(y, x)" in note, note
