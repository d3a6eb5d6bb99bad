"""Backward in a block: several passes, passes that do not count, writes, hooks and scales."""

import contextlib
import functools
import warnings

import pytest
import torch
from torch import nn

import backprobe as bp
from asked import Parts, says
from block_cases import assert_grads, case, grads, same, scalar
from both_forms import agree, both_forms
from custom import custom
from goldens import golden

pytestmark = pytest.mark.usefixtures("leaves_nothing")

PASSES, WRITES = "Backward passes", "Writes, views and hooks"


class Net(Parts):
    def forward(self, x):
        hidden = self.first(x)
        return self.second(hidden.tanh())


def net():
    torch.manual_seed(0)
    return Net(first=nn.Linear(3, 4), second=nn.Linear(4, 1))


def full(number):
    return torch.full((3,), float(number))


@case("two `backward()` calls, `retain_graph=True`: summed, as `.grad` is", PASSES)
def test_two_calls(x):
    with bp.probe() as rec:
        u = x * 2
        v = u * 3
        first = v.sum()
        first.backward(retain_graph=True)
        second = (u * 5).sum()
        second.backward(retain_graph=True)
        first.backward()
    says(rec, grads={"x": x.grad, "u": full(11), "v": full(2), "first": 2})
    assert [entry.name for entry in rec.outputs] == ["first", "second"]


@case("`.grad` accumulated before the block does not count", PASSES)
def test_what_was_there_before(x):
    model = net()
    model(x).sum().backward()
    (x * 5).sum().backward()
    held = grads(model)
    before = {name: gradient.clone() for name, gradient in held.items()}
    with bp.probe(model) as rec:
        model(x).sum().backward()
    for name, gradient in grads(model).items():
        assert gradient is held[name]
        assert same(gradient, before[name] + rec[name].grad), name
        assert same(rec[name].grad, before[name])


@case("micro-batches: the gradients of a parameter are summed, each pass of a module has its own", PASSES)
def test_micro_batches(x):
    model, parts = net(), [torch.randn(2, 3) for _ in range(3)]
    for part in parts:
        (model(part).sum() / 3).backward()
    bare = grads(model)
    model.zero_grad()
    with bp.probe(model, ["**", ":hidden"]) as rec:
        for part in parts:
            (model(part).sum() / 3).backward()
    for name, gradient in bare.items():
        assert same(model.get_parameter(name).grad, gradient), name
        assert torch.allclose(rec[name].grad, gradient, rtol=1e-6), name
    for at, part in enumerate(parts):
        assert rec[f"hidden#{at}"].shape == (2, 4)
        assert rec[f"first#{at}"] is rec[f"hidden#{at}"]
        assert same(rec[f"second#{at}"].grad, torch.full((2, 1), 1 / 3))


@case("a gradient penalty: `autograd.grad(create_graph=True)` in the block", PASSES, "works: an output of its own")
def test_a_gradient_penalty(x):
    model = net()

    def step(x):
        u = x * 2
        y = model(u).sum()
        (slope,) = torch.autograd.grad(y, u, create_graph=True)
        penalty = (slope.norm() - 1) ** 2
        loss = y + penalty
        loss.backward()
        return slope

    step(x)
    bare, x_bare, x.grad = grads(model), x.grad, None
    model.zero_grad()
    with bp.probe() as rec:
        u = x * 2
        y = model(u).sum()
        (slope,) = torch.autograd.grad(y, u, create_graph=True)
        penalty = (slope.norm() - 1) ** 2
        loss = y + penalty
        loss.backward()
    assert same(x.grad, x_bare)
    says(rec, grads={"x": x_bare, "penalty": 1, "loss": 1, "y": 1}, statuses={"slope": "ok"})
    assert same(rec["u"].grad * 2, x_bare)
    assert_grads(model, bare)
    with bp.probe(model) as rec:
        model.zero_grad()
        step(x)
    for name, gradient in bare.items():
        assert torch.allclose(rec[name].grad, gradient, rtol=1e-5, atol=1e-7), name
    with bp.probe() as rec:
        u = x * 2
        torch.autograd.grad(u.sum(), x)
    assert same(rec["u"].grad, torch.ones_like(x))


@case("`backward(create_graph=True)`, and a second pass through the gradients; `probe(create_graph=True)`", PASSES)
def test_create_graph(x):
    for options in ({}, {"create_graph": True}):
        x.grad = None
        with warnings.catch_warnings(), bp.probe(**options) as rec:
            warnings.simplefilter("ignore", UserWarning)  # PyTorch's, of the cycle through x.grad
            u = x**3
            u.sum().backward(create_graph=True)
            slope = x.grad * 1
        assert same(rec["x"].grad.detach(), 3 * x.detach() ** 2)
        assert rec["x"].grad.requires_grad == bool(options)
        assert rec["slope"].status == "not_connected"
        x.grad = None
    with bp.probe() as rec:
        u = x**3
        (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        slope.sum().backward()
    says(rec, grads={"x": 6 * x.detach(), "slope": torch.ones(3)})


@case("`backward(inputs=[...])`", PASSES, "gradients of what leads there; otherwise `not_connected` with that reason")
def test_limited_inputs(x):
    w = torch.tensor(2.0, requires_grad=True)
    with bp.probe() as rec:
        u = x * 2
        side = w * 3
        v = u * side
        v.sum().backward(inputs=[x])
    assert w.grad is None
    says(rec, grads={"x": x.grad, "u": full(6)})
    for name in ("w", "side"):
        assert rec[name].status == "not_connected"
        assert "inputs" in rec[name].reason


@case("`torch.autograd.backward` of several tensors with their cotangents", PASSES)
def test_several_roots(x):
    with bp.probe() as rec:
        u = x * 2
        v = u * 3
        w = u.sum()
        torch.autograd.backward([v, w], [full(10), None])
    says(rec, grads={"u": full(31), "v": full(10), "w": 1, "x": x.grad})


@case("`GradScaler`, or a loss that is scaled by hand", PASSES, "works; a note says the scale")
def test_scaled_losses(x):
    model = net()
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    for scaled, note in (
        (lambda loss: scaler.scale(loss), "the scale of a GradScaler; all gradients carry it"),
        (functools.partial(torch.mul, other=128.0), "all gradients carry that factor"),
    ):
        model.zero_grad()
        with bp.probe() as rec:
            loss = model(x).sum()
            scaled(loss).backward()
        assert rec["loss"].grad.item() == 128
        sign = "," if "GradScaler" in note else ";"
        golden("explain", rec.notes)
        with bp.probe(model, ["**", ":hidden"]) as rec:
            model.zero_grad()
            scaled(model(x).sum()).backward()
        assert all(same(rec[name].grad, gradient) for name, gradient in grads(model).items())


@case("`torch.autocast`", PASSES)
def test_autocast(x):
    model = net()

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = model(x)
            loss = y.float().sum()
        loss.backward()

    step()
    bare = grads(model)
    model.zero_grad()
    with bp.probe() as plain, bp.probe(model, ["**"]) as rec:
        step()
    assert all(same(rec[name].grad, gradient) for name, gradient in bare.items())
    assert rec["first"].dtype == "bfloat16"
    assert rec["first"].grad.dtype == torch.bfloat16
    assert plain["/step:y"].dtype == "bfloat16"


@case(
    "`zero_grad()` and `optimizer.step()` in the block", PASSES, 'works; values that it overwrites need `values="copy"`'
)
def test_a_whole_training_step(x):
    def train(model, probe):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        for _ in range(2):
            with probe as rec:
                optimizer.zero_grad()
                loss = model(x).sum()
                loss.backward()
                optimizer.step()
        return rec

    bare = net()
    train(bare, contextlib.nullcontext())
    for probe_of in (lambda model: bp.probe(), lambda model: bp.probe(model)):
        model = net()
        rec = train(model, probe_of(model))
        assert all(same(a, b) for a, b in zip(model.parameters(), bare.parameters(), strict=True))
    gradient = rec["first.weight"].grad
    assert same(gradient, model.first.weight.grad)
    with pytest.raises(bp.Overwritten, match='values="copy"'):
        rec["first.weight"].value  # noqa: B018
    model = net()
    before = model.first.weight.detach().clone()
    with bp.probe(model, values="copy") as rec:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(x).sum().backward()
        optimizer.step()
    assert same(rec["first.weight"].value, before)


@case("PyTorch's own error for a second `backward()` comes out unchanged", PASSES)
def test_a_second_pass_without_a_graph(x):
    def twice():
        u = x.exp()
        u.sum().backward()
        u.sum().backward()

    with pytest.raises(RuntimeError) as bare:
        twice()
    with pytest.raises(RuntimeError, match="backward through the graph a second time") as caught, bp.probe() as rec:
        twice()
    assert type(caught.value) is type(bare.value)
    assert caught.value.args == bare.value.args
    assert same(rec["/twice:u"].grad, full(2))  # as far as the second pass came, as with retain_grad()
    for error in (bare, caught):
        error.value.__traceback__ = None


# writes, views and hooks


@case("hooks of yours on tensors, `retain_grad()`: the entry has what the hook returned", WRITES)
def test_hooks_of_the_user(x):
    seen = []
    with bp.probe() as rec:
        u = x * 2
        u.register_hook(lambda gradient: gradient * 10)
        u.retain_grad()
        v = u * 3
        v.register_hook(seen.append)
        v.register_hook(lambda gradient: seen.append("second"))
        v.sum().backward()
    says(rec, grads={"u": full(30), "x": x.grad})
    assert same(u.grad, full(30))
    assert same(seen[0], torch.ones(3))
    assert seen[1] == "second"
    x.register_hook(lambda gradient: gradient * 2)
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.clone()))
    x.grad = None
    with bp.probe() as rec:
        u = x * 2
        u.sum().backward()
    assert same(rec["x"].grad, full(4))
    assert same(rec["x"].grad, x.grad)
    assert same(seen[-1], full(4))


@pytest.mark.parametrize("which", ["u", "v", "loss"])
def test_a_hook_that_comes_later_changes_what_is_recorded_wherever_a_pass_begins(x, which):
    with bp.probe() as rec:
        u = x * 2
        v = u * 3
        loss = v.sum()
        {"u": u, "v": v, "loss": loss}[which].register_hook(lambda gradient: gradient * 10)
        loss.backward()
    after = {"loss": ["loss", "v", "u"], "v": ["v", "u"], "u": ["u"]}[which]
    plain = {"loss": torch.tensor(1.0), "v": full(1), "u": full(3)}
    says(rec, grads={name: plain[name] * (10 if name in after else 1) for name in plain} | {"x": x.grad})


def test_hooks_that_come_and_go_between_two_passes(x):
    with bp.probe() as rec:
        u = x * 2
        v = u * 3
        gone = v.register_hook(lambda gradient: gradient * 100)
        gone.remove()
        loss = v.sum()
        loss.backward(retain_graph=True)
        loss.register_hook(lambda gradient: gradient * 10)
        loss.backward(retain_graph=True)
        u.register_hook(lambda gradient: gradient * 2)
        loss.backward()
    says(rec, grads={"loss": torch.tensor(21.0), "v": full(21), "u": full(3 * (1 + 10 + 20)), "x": x.grad})


def test_hooks_of_the_user_in_a_block_within_a_block(x):
    with bp.probe() as outer:
        u = x * 2
        with bp.probe() as inner:
            v = u * 3
            v.register_hook(lambda gradient: gradient * 10)
            u.register_hook(lambda gradient: gradient + 1)
            v.sum().backward()
    for rec in (inner, outer):
        says(rec, grads={"v": full(10), "u": full(31)})


def test_hooks_of_the_user_on_what_a_module_returns(x):
    model, bare = net(), net()
    for one in (model, bare):
        block = bp.probe(one) if one is model else contextlib.nullcontext()
        with block as rec:
            hidden = one.first(x)
            hidden.register_hook(lambda gradient: gradient * 10)
            hidden.retain_grad()
            one.second(hidden.tanh()).sum().backward()
        if one is model:
            assert same(rec["first"].grad, hidden.grad)
    assert same(model.first.weight.grad, bare.first.weight.grad)


@pytest.mark.parametrize("hooked", [False, True])
def test_a_leaf_that_is_a_view(hooked):
    whole = torch.arange(12.0).reshape(3, 4)
    first, rest = whole[:, 0].requires_grad_(), whole[:, 2:].requires_grad_()
    if hooked:
        first.register_hook(lambda gradient: gradient * 10)
    with bp.probe() as rec:
        u = first * 2
        loss = u.sum() + (rest * rest).sum()
        if hooked:
            rest.register_hook(lambda gradient: gradient + 1)
        loss.backward()
    assert first._is_view() and rest._is_view()
    says(rec, grads={"first": first.grad, "rest": rest.grad, "u": full(1)})
    assert same(first.grad, full(20 if hooked else 2))


WRITTEN_IN_PLACE = """
u = x * 2
first = u[:2]
first *= 3
u += 1
u[0] = 5.0
z = u.clone()
torch.neg_(z)
last = z.view(3, 1)
last.mul_(2)
loss = (last * 3).sum() + first.sum()
"""


@case("in-place writes and views: versions, as in the function form", WRITES)
def test_in_place_writes_and_views(x, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    forms = both_forms(tmp_path, "block_cases", WRITTEN_IN_PLACE, "x", "        loss.backward()\n")
    rec = forms.block(x)
    agree(bp.probe(forms.function)(x), rec)
    assert same(rec["x"].grad, x.grad)


@case("writes through `.data` and under `no_grad`", WRITES, "`opaque`, as in the function form")
def test_writes_out_of_sight(x):
    with bp.probe() as rec:
        u = x * 2
        u.data.mul_(3)
        v = x * 4
        with torch.no_grad():
            v += 1
        w = x * 5
        w.data = torch.ones(3)
        n = x * 6
        n.detach().numpy()[0] = 7.0
        part = x * 8
        part[1:].data[0] = 9.0
        (u + v + w + n + part).sum().backward()
    assert rec["u"].status == "opaque"
    golden("explain", rec["u"].reason)
    assert same(rec["u"].value, 2 * x.detach())
    assert same(rec["n"].value, 6 * x.detach())
    assert rec["n"].status == rec["part"].status == "opaque"
    assert rec["v#0"].status == rec["v#1"].status == "opaque"
    assert same(rec["x"].grad, x.grad)


def test_a_parameter_that_is_updated_through_data_after_backward_keeps_its_gradient():
    w, x = torch.tensor([3.0, 4.0], requires_grad=True), torch.tensor([1.0, 2.0])
    with bp.probe() as rec:
        (w * x).sum().backward()
        w.data.sub_(w.grad)
    says(rec, grads={"w": [1.0, 2.0]}, values={"w": [3.0, 4.0]})
    assert rec["w"].cause is None
    assert bp.explain(rec).ok


@pytest.mark.parametrize("early", [True, False])
def test_what_backward_brings_after_a_write_through_data_is_not_told_apart(early):
    w, x = torch.tensor([3.0, 4.0], requires_grad=True), torch.tensor([1.0, 2.0])
    with bp.probe() as rec:
        if not early:
            (w * x).sum().backward()
        loss = (w * w).sum()
        w.data.sub_(1.0)
        loss.backward()
    assert rec["w"].status == "opaque"
    assert rec["w"].cause.text == "w.data.sub_(1.0)"


@case(
    "an in-place write that a block cannot foresee", WRITES, "the new version is right; the old value is `Overwritten`"
)
def test_writes_that_cannot_be_foreseen(x):
    with bp.probe() as rec:
        u = x * 2
        getattr(u, "mul_")(2)
        v = u + 1
        v.sum().backward()
    says(rec, values={"u#1": 4 * x.detach()}, grads={"u#1": torch.ones(3), "u#0": full(2)})
    with pytest.raises(bp.Overwritten):
        rec["u#0"].value  # noqa: B018
    with bp.probe(values="copy") as rec:
        u = x * 2
        getattr(u, "mul_")(2)
        u.sum().backward()
    assert same(rec["u#0"].value, 2 * x.detach())
    with bp.probe() as rec:  # what a method is called on tells what it may write to
        u = x * 2
        u.view(3)[1:].mul_(3)
        v = x * 3
        v.detach().mul_(2)
        (u + v).sum().backward()
    assert same(rec["u#0"].value, 2 * x.detach())
    assert same(rec["u#0"].grad, torch.tensor([1.0, 3.0, 3.0]))
    assert same(rec["u#1"].grad, torch.ones(3))
    assert same(rec["v#0"].value, 3 * x.detach())
    assert rec["v#0"].status == rec["v#1"].status == "opaque"


def test_a_backward_that_raises_on_its_way():
    class Breaks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, u):
            return u * 2

        @staticmethod
        def backward(ctx, gradient):
            raise FloatingPointError

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with bp.probe() as rec:
        u = x * 3
        v = Breaks.apply(u)
        w = v * 4
        with pytest.raises(FloatingPointError):
            w.sum().backward()
    assert rec["v"].grad.tolist() == [4.0, 4.0]
    for name in ("u", "x"):
        assert rec[name].status == "backward_not_run"
        golden("explain", rec[name].reason)
    with bp.probe() as rec:
        u = x * 3
        apart = x * 2
        u.sum().backward()
    assert rec["apart"].status == "not_connected"


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
    golden("explain", rec.notes)
    with bp.probe() as rec:
        loss = a * a
        (loss / 4).backward()
    assert rec.notes == ()
    with bp.probe() as rec:
        loss = a * a
        (0.5 * loss).backward()
    assert rec.notes == ()


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
    assert "modified its gradient" in rec["u"].reason


def test_a_step_written_by_hand():
    x, w = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0], requires_grad=True)
    with bp.probe() as rec:
        loss = ((x * w).sum() - 5) ** 2
        loss.backward()
        with torch.no_grad():
            w -= 0.01 * w.grad
        w.grad = None
        w.requires_grad = True
    says(rec, grads={"w#0": [-4, -8]}, statuses={"w#1": "not_connected"})
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


def test_elements_with_factors_of_their_own_are_not_scaled():
    x = torch.ones(3, requires_grad=True)
    with bp.probe() as rec:
        loss = x * x * torch.tensor([1.0, 0.0, 2.0])
        loss.backward(torch.ones_like(loss))
    assert "multiple of another" not in str(rec)


def test_a_scaled_loss_in_a_block_around_a_model():
    model = torch.nn.Linear(2, 1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    with bp.probe(model) as rec:
        scaler.scale(model(torch.ones(1, 2)).square().mean()).backward()
    golden("explain", rec.notes)


def test_a_scale_is_that_of_the_call_and_of_a_scaler_that_is_on():
    model, x = torch.nn.Linear(2, 1), torch.ones(1, 2)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bp.probe() as rec:
        loss = model(x).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update(2.0)
    golden("explain", rec.notes)
    switched_off = torch.amp.GradScaler("cpu", enabled=False)
    with bp.probe() as rec:
        loss = model(x).sum()
        switched_off.scale(loss).backward()
    assert rec.notes == ()
    assert "scale" not in vars(scaler)
    assert type(vars(torch.amp.GradScaler)["scale"]).__name__ == "function"


def of_parts(loss, model):
    (loss / 4).backward()


def of_a_mean(loss, model):
    torch.stack([loss]).mean().backward()


def of_half_and_a_penalty(loss, model):
    (loss / 2 + model.weight.square().sum()).backward()


@pytest.mark.parametrize("backward", [of_parts, of_a_mean, of_half_and_a_penalty])
@pytest.mark.parametrize("around", ["the variables", "the model"])
def test_a_loss_that_is_divided_or_made_smaller_is_not_a_scaled_one(around, backward):
    model, x = torch.nn.Linear(2, 1), torch.ones(3, 2)
    with bp.probe(*([model] if around == "the model" else [])) as rec:
        loss = model(x).square().sum()
        backward(loss, model)
    assert rec.notes == ()


Triple = custom("Triple", lambda a: a * 3, lambda gradient, a: gradient.mul_(3))  # into what it was given


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


def test_a_leaf_to_which_nothing_comes():
    """PyTorch calls the hook of a leaf with None where a backward gives it nothing."""

    Nothing = custom("Nothing", lambda a, b: a * b, lambda gradient, a, b: (gradient, None))

    x, w = scalar(2.0), scalar(3.0)
    with bp.probe() as rec:
        u = Nothing.apply(x, w)
        u.backward()
    says(rec, grads={"x": 1}, statuses={"w": "not_connected"})


@pytest.mark.parametrize("selected", [None, "**:*", ["**", "**:*"]])
@pytest.mark.parametrize("hook", [None, lambda module, given, returned: returned * 2])
def test_a_model_that_runs_backward_twice_from_what_it_returns(selected, hook):
    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.out = torch.nn.Linear(3, 1)

        def forward(self, x):
            loss = self.out(x).sum()
            return loss

    model, x = Loss(), torch.ones(4, 3)
    if hook is not None:
        model.register_forward_hook(hook)
    with bp.probe(model, selected) as rec:
        for _ in range(2):
            model(x).backward()
    factor = 1 if hook is None else 2
    assert model.out.bias.grad.item() == 2 * 4 * factor
    assert rec["return#0"].grad == rec["return#1"].grad == 1
    if selected is not None:
        assert rec["loss#0"].grad == rec["loss#1"].grad == factor
