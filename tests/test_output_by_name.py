"""``of=`` the name of a value that is not returned, in PyTorch."""

from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from random_programs.compare import LARGEST, Tally, compare, load, plain_output
from random_programs.drawn import check_many
from random_programs.inner import one_of, returning
from random_programs.interpreter import ARGUMENTS, Interpreter
from random_programs.statements import generate
from sampled import count, drawn


@drawn
def test_any_value_of_random_programs(tmp_path):
    """Programs that write in place: a value that was written since is refused, and no other is."""
    tally, refused = Tally(), []

    def check(program):
        tally.run += 1
        function = load(program, tmp_path / f"program_{tally.run}.py")
        given = [torch.tensor(v, dtype=torch.float64) for v in ARGUMENTS[: function.__code__.co_argcount]]
        oracle = Interpreter()
        oracle.run(program)
        if plain_output(function, given) is None or not oracle.memory.largest < LARGEST:
            return False
        bindings = oracle.names.bindings
        chosen = one_of(bindings, program)
        try:
            cotangent = torch.ones(chosen.value.shape, dtype=torch.float64)
            rec = bp.probe(function, of=chosen.name, cotangent=cotangent)(*given)
        except RuntimeError as error:  # what the backward of this value needs was written, though not for the output
            assert "modified by an inplace operation" in str(error)
            return False
        except bp.BadOutput as error:
            assert "modified in place" in str(error)
            refused.append(program)
            return True
        return compare(program, bindings, rec, tally, interpreter=returning(chosen.name, Interpreter))

    many = count(150)
    check_many(generate, check, many)
    assert tally.statuses["ok"] > 2 * many
    assert 0 < len(refused) < many / 2


def test_a_value_whose_backward_needs_what_was_written_raises_pytorchs_error():
    def written(x):
        u = x * 2
        v = (u * u).sum()
        u.mul_(3)
        return u.sum()

    with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
        bp.probe(written, of="v")(torch.ones(2))
    assert any("mul_" in note for note in caught.value.__notes__)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        scores = self.q(x) @ self.k(x).transpose(-1, -2)
        return scores.softmax(-1) @ x


class Network(nn.Module):
    def __init__(self, again=False):
        super().__init__()
        self.h, self.again = nn.ModuleList([Attention(), Attention()]), again

    def forward(self, x):
        total = 0.0
        for block in self.h:
            x = checkpoint(block, x, use_reentrant=False) if self.again else block(x)
            total = total + x.sum()
        return {"loss": total, "out": x}


@pytest.fixture
def x():
    return torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(0))


def network(**options):
    torch.manual_seed(0)
    return Network(**options)


def by_hook(model, path, element, x):
    """The gradients of the parameters, of an element of what a module returns."""
    seen = []
    handle = model.get_submodule(path).register_forward_hook(lambda module, given, output: seen.append(output))
    model(x)
    handle.remove()
    grads = torch.autograd.grad(element(seen[-1]), list(model.parameters()), allow_unused=True)
    return dict(zip((name for name, _ in model.named_parameters()), grads, strict=True))


@pytest.mark.parametrize("again", [False, True], ids=["plain", "checkpointed"])
@pytest.mark.parametrize(
    ("path", "of", "element"),
    [
        ("h.1", "h.1[0, 2, 1]", lambda y: y[0, 2, 1]),
        ("h.0", "h.0[..., -1, 0]", lambda y: y[..., -1, 0]),
        ("h.0.q", "h.0.q:return[0][1, 2]", lambda y: y[0][1, 2]),
    ],
)
def test_an_element_of_what_a_module_returns(x, again, path, of, element):
    rec = bp.probe(network(again=again), "**", of=of)(x)
    for name, grad in by_hook(network(again=again), path, element, x).items():
        if grad is None:
            assert rec[name].status == "not_connected", name
        else:
            assert torch.equal(rec[name].grad, grad), name
    assert [entry.name for entry in rec.outputs] == [of]
    assert rec[of].grad.item() == 1.0


@pytest.mark.parametrize("again", [False, True], ids=["plain", "checkpointed"])
def test_an_attention_score(x, again):
    model = network(again=again)
    rec = bp.probe(model, ["h.*", "**.weight"], of="h.1:scores[..., 0, 2]")(x)
    inside = model.h[0](x)
    score = (model.h[1].q(inside) @ model.h[1].k(inside).transpose(-1, -2))[..., 0, 2]
    grads = torch.autograd.grad(score, [inside, model.h[1].q.weight, model.h[0].k.weight])
    for name, grad in zip(("h.0", "h.1.q.weight", "h.0.k.weight"), grads, strict=True):
        torch.testing.assert_close(rec[name].grad, grad)
    assert "h.1:scores" not in rec  # it was not selected


def test_a_local_of_the_models_own_forward_has_a_colon(x):
    rec = bp.probe(network(), "h.*", of=":total#1")(x)
    assert torch.equal(rec["h.0"].grad, torch.ones(1, 3, 4))
    with pytest.raises(bp.BadOutput) as caught:
        bp.probe(network(), "h.*", of="total")(x)
    assert "of=':total'" in str(caught.value)


@pytest.mark.parametrize("of", ["return[0]", ":return[0]", "1[0]"])
def test_the_name_that_is_printed_for_what_a_model_returns(of):
    model, rows = nn.Sequential(nn.Linear(3, 1), nn.Flatten(0)), torch.randn(2, 3)
    rec = bp.probe(model, "**.weight", of=of)(rows)
    assert torch.equal(rec["0.weight"].grad, rows[:1])


def test_the_name_that_is_printed_for_a_part_of_what_a_model_returns():
    rec = bp.probe(Shared(), "h.*", of="return.loss")(torch.ones(1, 2))
    assert [one.name for one in rec.outputs] == ["return.loss"]


def test_a_path_into_what_is_returned_comes_first(x):
    assert bp.probe(network(), "h.*", of="loss")(x).outputs[0].name == "return.loss"


def helper(z):
    s = z.sin()
    return s * 2


def program(x, w):
    u = x * w
    v = helper(u)
    u = u + 1
    return (v * u).sum()


ARGUMENTS_OF_PROGRAM = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("of", "error", "said"),
    [
        ("u", bp.AmbiguousName, ["u#0, u#1", "of='u#1'"]),
        ("u[0]", bp.AmbiguousName, ["u#0, u#1", "of='u#1[0]'"]),
        ("v", bp.BadOutput, ["shape (3,)", "cotangent=torch.ones((3,))", "of='v[0]'"]),
        ("v[7]", bp.BadOutput, ["no such element", "shape (3,)"]),
        ("v[x]", bp.BadOutput, ["v"]),
        ("vv", bp.BadOutput, ["of='v'"]),
        ("*", bp.BadOutput, ["'*'"]),
        ("/helper:t", bp.BadOutput, ["/helper:s"]),
        ("`v", bp.BadOutput, ["`v"]),
    ],
)
def test_errors(of, error, said):
    with pytest.raises(error) as caught:
        bp.probe(program, of=of)(*ARGUMENTS_OF_PROGRAM)
    for text in said:
        assert text in str(caught.value)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.sh = nn.Linear(2, 2), nn.Linear(2, 2)
        self.h = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])

    def forward(self, x):
        y = self.sh(self.sh(self.enc(x)))
        for block in self.h:
            y = block(y)
        pair = y * 2, y.sum()
        return {"loss": pair[1], "y": y, "pair": pair}


@pytest.mark.parametrize(
    ("of", "found", "instead"),
    [
        ("sh#-1", "shape (1, 2)", "of='sh#-1[0, 0]'"),
        ("sh#9[0,0]", "sh#0, sh#1", "of='sh#1[0,0]'"),
        ("h#9[0, 0]", "the nearest names: h.0, h.1", "of='h.0[0, 0]'"),
        ("h[1]", "the nearest names: h.1, h.0", "of='h.1'"),
        ("h[7]", "the nearest names: h.0, h.1", "of='h.0'"),
        ("enc[foo]", "'enc', a tensor of shape (1, 2), and behind it [foo]", "of='enc[0, 0]'"),
        ("enc[True]", "behind it [True]", "of='enc[0, 0]'"),
        ("enc[0.5]", "behind it [0.5]", "of='enc[0, 0]'"),
        ("enc[]", "behind it []", "of='enc[0, 0]'"),
        ("enc[0, 5]", "index 5 is out of bounds", "of='enc[0, 0]'"),
        ("enc[0][0][0]", "'enc' has the shape (1, 2)", "of='enc[0, 0]'"),
        ("en[0, 1]", "the nearest names: enc", "of='enc[0, 1]'"),
        ("los[0]", "loss", "of='loss[0]'"),
        ("loss[0]", "shape ()", "of='loss'"),
        ("y[0, 9]", "index 9 is out of bounds", "of='y[0, 0]'"),
        ("y[foo]", "'y', a tensor of shape (1, 2)", "of='y[0, 0]'"),
        ("pair[2]", "a tuple of 2", "of='pair[0]'"),
        ("pair['a']", "loss, y, pair.0, pair.1", "of='pair.1'"),
        ("h[1][0, 0]", "the nearest names: h.1, h.0", "of='h.1[0, 0]'"),
        ("['loss']", "loss", "of='loss'"),
        (":y", ":y#0", "of=':y#"),
        (-1, "a dict", "of='loss'"),
        (3, "a dict", "of='loss'"),
        ("-1", "a dict", "of='loss'"),
    ],
)
def test_what_to_type_instead(of, found, instead):
    with pytest.raises((bp.BadOutput, bp.AmbiguousName)) as caught:
        bp.probe(Shared(), "h.*", of=of)(torch.ones(1, 2))
    error = caught.value
    assert found in str(error)
    assert instead in error.next
    assert error.asked


def test_what_is_suggested_can_be_typed():
    for of in ("sh#9[0,0]", "h[1][0, 0]", "enc[foo]", "y[foo]", "los", ":y", ":y[0, 0]", "en[0, 1]", "['loss']", -1):
        with pytest.raises((bp.BadOutput, bp.AmbiguousName)) as caught:
            bp.probe(Shared(), "h.*", of=of)(torch.ones(1, 2))
        instead = caught.value.next.split(", or ")[0].removeprefix("of=").strip("'")
        cotangent = None if "[" in instead or "los" in instead else torch.ones(1, 2)
        rec = bp.probe(Shared(), "h.*", of=instead, cotangent=cotangent)(torch.ones(1, 2))
        assert len(rec.outputs) == 1


@pytest.mark.parametrize(
    ("of", "element", "name"),
    [
        ("y[0, 1]", lambda out: out["y"][0, 1], "y[0, 1]"),
        ("y[..., -1]", lambda out: out["y"][..., -1], "y[..., -1]"),
        ("pair.0[0, 1]", lambda out: out["pair"][0][0, 1], "pair.0[0, 1]"),
        ("pair[0][0][1]", lambda out: out["pair"][0][0][1], "pair[0][0][1]"),
        ("pair[-1]", lambda out: out["pair"][-1], "return.pair.1"),
        ("pair[1]", lambda out: out["pair"][1], "return.pair.1"),
    ],
)
def test_an_element_of_what_is_returned(of, element, name):
    torch.manual_seed(0)
    model, x = Shared(), torch.tensor([[1.0, -2.0]])
    rec = bp.probe(model, ["h.*", "**.weight"], of=of)(x)
    grads = torch.autograd.grad(element(model(x)), [model.sh.weight, model.h[1].weight])
    assert torch.equal(rec["sh.weight"].grad, grads[0])
    assert torch.equal(rec["h.1.weight"].grad, grads[1])
    assert rec.outputs[0].name == name
    assert torch.equal(rec.outputs[0].value, element(model(x)).detach())


def test_a_path_comes_before_a_name_with_an_index_as_well():
    def program(x):
        out = x * 2
        return {"out": out.exp(), "x": x.sum()}

    x = torch.tensor([0.5, 1.0])
    assert torch.equal(bp.probe(program, of="out[1]")(x)["x"].grad, torch.tensor([0.0, 2.0]) * (2 * x).exp())
    assert bp.probe(program, of="x")(x)["x"].grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("of", "key"), [(0, "a"), (1, "b"), (-1, "b"), ("-2", "a")])
def test_a_position_may_be_counted_from_the_end(of, key):
    class Pair(NamedTuple):
        a: torch.Tensor
        b: torch.Tensor

    x = torch.tensor([0.5, 1.0])
    for make in (Pair, lambda a, b: (a, b), lambda a, b: [a, b]):
        rec = bp.probe(lambda x, make=make: make((x * 2).sum(), (x * 3).sum()), of=of)(x)
        assert rec["x"].grad.tolist() == [2.0 if key == "a" else 3.0] * 2
    with pytest.raises(bp.BadOutput, match="nothing at position 2"):
        bp.probe(lambda x: (x.sum(), x.prod()), of=2)(x)
    with pytest.raises(bp.BadOutput, match="nothing at position -3"):
        bp.probe(lambda x: (x.sum(), x.prod()), of=-3)(x)


@pytest.mark.parametrize(
    ("of", "element"),
    [
        ("v", "of='v[0, 0]'"),
        (None, "of='v[0, 0]'"),
        ("held.w", "of='held.w[0]'"),
        (lambda out: out["v"], "of=lambda result: result[0, 0]"),
    ],
)
def test_an_output_that_is_not_a_scalar_is_told_its_element(of, element):
    def program(x):
        v = x * 2
        return {"v": v} if of is None else {"v": v, "held": {"w": v[0] * 3}}

    with pytest.raises(bp.BadOutput) as caught:
        bp.probe(program, of=of)(torch.ones(2, 2))
    assert element in caught.value.next


def test_attention_weights_that_are_none_say_why():
    class Attention(nn.Module):
        def forward(self, x):
            attn_weights = helper_without_weights(x)
            return x.sum() if attn_weights is None else attn_weights

    with pytest.raises(bp.BadOutput) as caught:
        bp.probe(Attention(), "*", of=":attn_weights[0, 0]")(torch.ones(2, 2, requires_grad=True))
    assert "attn_implementation='eager'" in str(caught.value)


def helper_without_weights(x):
    return None


def test_a_number_is_no_output():
    def counted(x):
        n = 3
        return x * n

    with pytest.raises(bp.BadOutput, match="'n' is not a tensor"):
        bp.probe(counted, of="n")(torch.tensor(1.0))


def test_a_value_written_since_is_refused_and_its_new_version_is_not():
    def written(x):
        u = x * 2
        u.mul_(x)
        return u.sum() * 3

    x = torch.tensor([1.0, 2.0])
    with pytest.raises(bp.BadOutput, match="modified in place"):
        bp.probe(written, of="u#0[0]")(x)
    assert bp.probe(written, of="u#-1[1]")(x)["x"].grad.tolist() == [0.0, 8.0]


def test_the_same_selection_with_another_output():
    for of, grad in (("u#0[0]", [2.0, 0.0, 0.0]), ("u#1[1]", [0.0, 3.0, 0.0]), (None, None)):
        rec = bp.probe(program, "x", of=of)(*ARGUMENTS_OF_PROGRAM)
        assert rec["x"].grad.tolist() == grad or grad is None
        assert list(rec) == ["x", of or "return"]


def test_what_is_not_selected_is_not_kept():
    import gc
    import weakref

    made = []

    def watched(x):
        u = x * 2
        made.append(weakref.ref(u))
        return {"loss": u.sum()}

    rec = bp.probe(watched, "x", of="loss")(torch.ones(3))
    gc.collect()
    assert list(rec) == ["x", "return.loss"]
    assert made[0]() is None


def test_a_recording_of_an_inner_value_is_saved_and_loaded(tmp_path):
    rec = bp.probe(program, of="v[1]")(*ARGUMENTS_OF_PROGRAM)
    rec.save(tmp_path / "saved")
    loaded = bp.load(tmp_path / "saved")
    assert loaded.outputs[0].name == "v[1]"
    assert torch.equal(loaded["x"].grad, rec["x"].grad)


def test_a_value_that_a_function_makes_of_the_output_is_said_to_be_that():
    rec = bp.probe(nn.Linear(3, 2), of=lambda returned: returned.square().sum())(torch.ones(1, 3))
    assert str(rec).endswith("gradients are of what of= returned")
