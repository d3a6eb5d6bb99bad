"""Values that the program overwrites when the recording is over: an error, never the new numbers."""

import pytest
import torch

import backprobe as bp

WRITES = {
    "the optimizer": lambda model, x: torch.optim.SGD(model.parameters(), lr=0.1).step(),
    "several tensors at once": lambda model, x: torch.optim.SGD(model.parameters(), lr=0.1, foreach=True).step(),
    "by hand": lambda model, x: [weight.sub_(weight.grad) for weight in model.parameters()],
    "a state that is loaded": lambda model, x: model.load_state_dict(torch.nn.Linear(2, 1).state_dict()),
    "an initialization": lambda model, x: [torch.nn.init.ones_(weight) for weight in model.parameters()],
    "through a view": lambda model, x: [weight.view(-1)[:1].zero_() for weight in model.parameters()],
}


def linear():
    torch.manual_seed(0)
    return torch.nn.Linear(2, 1), torch.randn(3, 2)


def in_a_block(model, x, **options):
    with bp.probe(model, **options) as rec:
        model(x).pow(2).sum().backward()
    return rec


def in_a_plain_block(model, x, **options):
    weight, bias = model.weight, model.bias
    with bp.probe(**options) as rec:
        loss = (x @ weight.T + bias).pow(2).sum()
        loss.backward()
    return rec


def in_a_function(model, x, **options):
    def f(weight, bias):
        return (x @ weight.T + bias).pow(2).sum()

    rec = bp.probe(f, **options)(model.weight, model.bias)
    model(x).pow(2).sum().backward()
    return rec


def in_a_model(model, x, **options):
    rec = bp.probe(model, of=":return", cotangent=torch.ones(3, 1), **options)(x)
    model(x).pow(2).sum().backward()
    return rec


FORMS = [in_a_block, in_a_plain_block, in_a_function, in_a_model]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_value_that_was_written_to_since_is_an_error(form, write):
    model, x = linear()
    rec, held = form(model, x), form(model, x)["weight"]
    before = rec["weight"].value.clone()
    assert torch.equal(before, model.weight)
    with torch.no_grad():
        write(model, x)
    for entry in (rec["weight"], rec["bias"], held):
        with pytest.raises(bp.Overwritten, match='after the recording was over(.|\n)*values="copy"'):
            entry.value  # noqa: B018
    assert "overwritten" in str(rec)
    assert "after the recording was over" in str(rec["weight"])


@pytest.mark.parametrize("form", FORMS)
def test_a_copy_and_the_gradients_stay(form):
    model, x = linear()
    rec = form(model, x, values="copy")
    before, gradient = model.weight.detach().clone(), rec["weight"].grad.clone()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert torch.equal(rec["weight"].value, before)
    assert torch.equal(rec["weight"].grad, gradient)


def test_a_value_that_nobody_reads_before_the_write_is_an_error_too():
    model, x = linear()
    rec = in_a_block(model, x)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    with pytest.raises(bp.Overwritten):
        rec["weight"].value  # noqa: B018


@pytest.mark.parametrize("around", [True, False], ids=["around the model", "plain"])
def test_a_fused_step_in_a_block_whose_writes_pytorch_does_not_count(around):
    """What it writes to is copied before, and keeps its gradient."""
    model, x = linear()
    weight, bias = model.weight, model.bias
    optimizer, before = torch.optim.SGD(model.parameters(), lr=0.1, fused=True), weight.detach().clone()
    with bp.probe(*[model][:around]) as rec:
        loss = model(x).sum() if around else (x @ weight.T + bias).sum()
        loss.backward()
        optimizer.step()
    assert not torch.equal(weight, before)
    assert torch.equal(rec["weight"].value, before)
    assert torch.equal(rec["weight"].grad, weight.grad)
    assert bp.explain(rec).ok


def test_a_loop_of_fused_steps_does_not_pass_off_one_gradient_for_all():
    model, x = linear()
    weight, bias = model.weight, model.bias
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    with bp.probe() as rec:
        for _ in range(2):
            loss = (x @ weight.T + bias).sum()
            loss.backward()
            optimizer.step()
    assert rec["weight"].status == "opaque"
    assert "a fused optimizer" in rec["weight"].reason


def test_what_is_not_written_keeps_its_value():
    model, x = linear()
    rec = in_a_plain_block(model, x)
    loss = rec["loss"].value.clone()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert torch.equal(rec["loss"].value, loss)
    assert torch.equal(rec["x"].value, x)


def test_what_is_made_in_inference_mode_has_no_count_of_writes_and_keeps_its_value():
    with torch.inference_mode():
        x = torch.ones(2)
    w = torch.ones(2, requires_grad=True)
    with torch.no_grad(), bp.probe() as rec:
        u = x + w.detach()
    assert torch.equal(rec["u"].value, u)
    assert torch.equal(rec["x"].value, x)


def test_it_is_saved_as_lost_and_the_other_verbs_go_without_it(tmp_path):
    model, x = linear()
    rec = in_a_block(model, x)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    rec.save(tmp_path / "saved")
    with pytest.raises(bp.Overwritten, match="after the recording was over"):
        bp.load(tmp_path / "saved")["weight"].value  # noqa: B018
    assert bp.explain(rec).ok
    assert bp.health(rec).ok
    assert "overwritten" in bp.draw(rec)._repr_svg_()
