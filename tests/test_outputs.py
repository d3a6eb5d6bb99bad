"""Several outputs in one recording, against gradients taken one loss at a time."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest
import torch

import backprobe as bp
from random_programs.compare import LARGEST, Tally, compare, load, plain_output
from random_programs.drawn import check_many
from random_programs.inner import one_of, returning
from random_programs.interpreter import ARGUMENTS, Interpreter
from random_programs.statements import generate
from sampled import count, drawn
from two_tasks import KEYS, heads, one_at_a_time


def f(x, w):
    u = x * w
    ce = (u**2).sum()
    kl = u.sin().sum()
    idle = kl * 2
    return {"ce": ce, "kl": kl, "hidden": u}


X, W = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])


@pytest.fixture
def rec():
    return bp.probe(f, of=["ce", "kl"])(X, W)


@drawn
def test_random_programs_with_several_random_outputs(tmp_path):
    """Each output's recording is that of a program which returns this value, and the sum's gradients are the sums."""
    tally = Tally()

    def check(program):
        tally.run += 1
        function = load(program, tmp_path / f"program_{tally.run}.py")
        given = [torch.tensor(v, dtype=torch.float64) for v in ARGUMENTS[: function.__code__.co_argcount]]
        oracle = Interpreter()
        oracle.run(program)
        if plain_output(function, given) is None or not oracle.memory.largest < LARGEST:
            return False
        bindings = oracle.names.bindings
        chosen = {one.name: one for one in (one_of(bindings, program), one_of(bindings, program + "!"))}
        cotangents = {name: torch.ones(one.value.shape, dtype=torch.float64) for name, one in chosen.items()}
        try:
            rec = bp.probe(function, of=list(chosen), cotangent=cotangents)(*given)
        except (bp.BadOutput, RuntimeError):  # a value that was written since, which test_output_by_name is about
            return False
        check_sum(rec)
        return all(
            [compare(program, bindings, rec.of(one), tally, interpreter=returning(one, Interpreter)) for one in chosen]
        )

    many = count(60)
    check_many(generate, check, many)
    assert tally.statuses["ok"] > 3 * many
    assert tally.statuses["not_connected"] > many / 3


def check_sum(rec):
    total = rec.total()
    for name, entry in rec.items():
        parts = list(entry.grads.values())
        assert (total[name].status == "ok") is bool(parts)
        if parts:
            torch.testing.assert_close(total[name].grad, sum(parts[1:], parts[0]))


# a model


def test_a_transformer_with_two_heads():
    model, batch = heads()
    rec = bp.probe(model, "**", of=KEYS)(*batch)
    for key, grads in one_at_a_time(model, batch).items():
        for name, grad in grads.items():
            if grad is None:
                assert rec[name].statuses[key] == "not_connected"
            else:
                assert torch.equal(rec[name].grads[key], grad), (key, name)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_weighted_sum_is_the_gradient_of_the_weighted_sum():
    model, batch = heads()
    weights = {"tagging": 1.0, "scoring": 0.3, "penalty": 1e-3}
    total = bp.probe(model, "**", of=KEYS)(*batch).total(weights)
    losses = model(*batch)
    loss = sum(weights[key] * losses[key] for key in KEYS)
    for (name, parameter), grad in zip(
        model.named_parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True
    ):
        torch.testing.assert_close(total[name].grad, grad, msg=name)
    torch.testing.assert_close(total["total()"].value, loss.detach())


def root(x):
    u = x * 1
    return {"square": (u * u).sum(), "root": u.sqrt().sum()}


@pytest.mark.parametrize("nothing", [0, 0.0, -0.0, np.float32(0), np.array(0), torch.tensor(0.0)])
def test_an_output_whose_weight_is_0_is_left_out(nothing):
    x = torch.tensor([0.0, 2.0])  # the root has an infinite gradient at 0, and 0 times that is NaN
    rec = bp.probe(root, of=["square", "root"], partials=True)(x)
    total = rec.total({"square": 0.5, "root": nothing})
    assert total["x"].grad.tolist() == [0.0, 2.0]
    assert total["total()"].value == 2.0
    assert total["return.root"].status == "not_connected"
    assert str(total) == str(rec.total({"square": 0.5}))
    assert rec.total()["x"].grad[0] == float("inf")


@pytest.mark.parametrize("two", [2, 2.0, np.float64(2), np.int32(2), np.array(2.0), torch.tensor(2), Fraction(2)])
def test_weights_may_be_arrays_of_no_dimension(rec, two):
    expected = 2 * rec["u"].grads["ce"] + rec["u"].grads["kl"]
    assert torch.equal(rec.total({"ce": two, "kl": None})["u"].grad, expected)
    trained = torch.tensor(2.0, requires_grad=True)
    assert torch.equal(rec.total({"ce": trained, "kl": 1.0})["u"].grad, expected)


def test_a_sum_of_replaced_gradients_has_a_note():
    rec = bp.probe(f, of=["ce", "kl"], replace_grad={"u": lambda gradient: gradient.clamp(-1, 1)})(X, W)
    said = "replace_grad= changed the gradients of each output by themselves"
    for total in (rec.total(), rec.total({"ce": 2.0}), rec.total({"ce": 1, "kl": 1})):
        assert any(note.startswith(said) for note in total.notes)
        assert f"note: {said}" in str(total)
    assert torch.equal(rec.total()["u"].grad, rec["u"].grads["ce"] + rec["u"].grads["kl"])
    for exact in (rec, rec.of("ce"), rec.total({"ce": 1.0}), rec.total({"ce": 1.0, "kl": 0.0})):
        assert not exact.notes
    assert not bp.probe(f, of=["ce", "kl"], replace={"u": torch.sin})(X, W).total().notes


def test_what_flows_along_edges_is_of_one_output():
    rec = bp.probe(f, of=["ce", "kl"], partials=True)(3.0, 2.0)
    for name in rec:
        with pytest.raises(bp.NoGradient) as caught:
            rec[name].contributions  # noqa: B018
        assert f"rec.of('ce')[{name!r}].contributions, or rec.total()[{name!r}].contributions" in str(caught.value)
    flows = [one["u"].contributions["x"] for one in (rec.of("ce"), rec.of("kl"), rec.total())]
    assert flows[0] == rec["x"].grads["ce"]
    assert flows[2] == flows[0] + flows[1]
    assert rec["u"].partials == rec.of("kl")["u"].partials == {"x": 2.0, "w": 3.0}


def test_there_is_one_forward_pass_and_one_backward_pass_for_each_output():
    passes = []

    class Counted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            passes.append("forward")
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            passes.append("backward")
            return gradient

    def program(x):
        u = Counted.apply(x)
        return {"a": u.sum(), "b": (u * u).sum(), "c": u.exp().sum()}

    rec = bp.probe(program, of=["a", "b", "c"])(X)
    rec.total(), rec.of("b"), rec["u"].grads["c"]
    assert passes == ["forward", "backward", "backward", "backward"]


def test_a_probe_of_one_of_the_outputs_gives_the_same(rec):
    for key in rec.output_keys:
        alone, one = bp.probe(f, of=key)(X, W), rec.of(key)
        assert str(one) == str(alone)
        assert one.backward_order() == alone.backward_order()
        assert one.outputs[0].name == key == alone.outputs[0].name


def test_gradients_and_statuses_of_an_entry(rec):
    u = rec["u"]
    assert dict(u.grads) == {"ce": pytest.approx(2 * X * W), "kl": pytest.approx((X * W).cos())}
    assert (dict(rec["ce"].statuses), rec["ce"].status) == ({"ce": "ok", "kl": "not_connected"}, "ok")
    assert list(rec["ce"].grads) == ["ce"]
    assert "kl" not in rec["ce"].grads
    assert rec["ce"].grads.get("kl") is None
    assert rec["idle"].status == "not_connected"
    assert list(rec.missing()) == ["idle"]
    assert list(rec.grads("ce")) == ["x", "w", "u", "ce"]
    assert rec.output_keys == ("ce", "kl")
    assert [entry.name for entry in rec.outputs] == ["ce", "kl"]
    assert bp.probe(f, of="ce")(X, W).output_keys == ()


def test_functions_positions_and_inner_values():
    rec = bp.probe(
        f,
        of={"both": lambda returned: returned["ce"] + returned["kl"], "element": "u[1]", "vector": "hidden"},
        cotangent={"vector": [1.0, 10.0]},
    )(X, W)
    assert rec["x"].grads["vector"].tolist() == [3.0, 40.0]
    assert rec["x"].grads["element"].tolist() == [0.0, 4.0]
    assert torch.equal(rec["x"].grads["both"], bp.probe(f, of=lambda r: r["ce"] + r["kl"])(X, W)["x"].grad)
    assert [entry.name for entry in rec.outputs] == ["of().both", "u[1]", "u"]
    total = rec.total()
    assert total["total()"].value == rec["of().both"].value + 8 + 3 + 80
    pair = bp.probe(lambda x: (x.sum(), (x * x).sum()), of=[0, 1])(X)
    assert pair["x"].grads[1].tolist() == [2.0, 4.0]


def test_two_keys_of_one_value():
    rec = bp.probe(f, of={"a": "ce", "b": lambda returned: returned["ce"]})(X, W)
    assert torch.equal(rec["x"].grads["a"], rec["x"].grads["b"])
    assert torch.equal(rec.total()["ce"].grad, torch.tensor(2.0))
    assert [entry.name for entry in rec.outputs] == ["ce"]


def test_partials_and_a_derivation_of_the_sum():
    rec = bp.probe(f, of=["ce", "kl"], partials=True)(3.0, 2.0)
    total = rec.total({"ce": 0.5, "kl": -2})
    assert total.path_sums.agree
    derived = bp.derive(total, "x")
    assert derived.agrees
    assert derived.value == total["x"].grad
    assert bp.draw(total).svg.count("total()") > 0
    assert bp.health(total).ok is not None


def test_nan_is_looked_for_in_each_pass():
    def program(x):
        u = x * 1
        return {"root": u.sqrt().sum(), "square": (u * u).sum()}

    rec = bp.probe(program, of=["square", "root"], nonfinite=True)(torch.tensor([0.0, 1.0]))
    assert rec.of("square")["u"].finiteness.grad.is_finite
    assert rec.of("root")["u"].finiteness.grad.inf == 1
    assert bp.explain(rec.of("square")).ok
    assert bp.explain(rec.of("root")).findings[0].name == "sqrt()"
    assert rec.total()["u"].finiteness.grad.inf == 1


def test_gradients_can_be_differentiated_again():
    rec = bp.probe(lambda x: {"a": x**3, "b": x**2}, of=["a", "b"], create_graph=True)(2.0)
    for one, second in ((rec["x"].grads["a"], 12.0), (rec["x"].grads["b"], 2.0), (rec.total()["x"].grad, 14.0)):
        assert torch.autograd.grad(one, rec["x"].value, retain_graph=True)[0] == second


# asking


def named(of):
    return lambda: bp.probe(f, of=of)


@pytest.mark.parametrize(
    ("ask", "error", "said"),
    [
        (named([]), bp.BadOption, ["of names no output"]),
        (named(["ce", "ce"]), bp.BadOption, ["twice", "next:  of=['ce']"]),
        (named(["ce", f]), bp.BadOption, ["needs a key", "of={'loss': f, ...}"]),
        (named({1: "ce"}), bp.BadOption, ["keys of several outputs are texts", "found: an int"]),
        (named({"": "ce"}), bp.BadOption, ["keys of several outputs are texts, and not empty"]),
        (named({"ce": None}), bp.BadOption, ["of['ce'] is a path, a position or a function, not None"]),
        (named([["ce"]]), bp.BadOption, ["of is a path, a position or a function, not a list"]),
        (named(3.5), bp.BadOption, ["or a list or dict of these, not a float"]),
        (
            lambda: bp.probe(f, of=["ce"], cotangent=1.0),
            bp.BadOption,
            ["have a cotangent each", "cotangent={'ce': ...}"],
        ),
        (
            lambda: bp.probe(f, of=["ce", "kl"], cotangent={"klo": 1.0}),
            bp.BadOption,
            ["'klo', and no output has it", "cotangent={'kl': ...}"],
        ),
        (lambda: bp.probe(f, of=["ce"], strategy="hooks"), bp.BadOption, ["several outputs", 'strategy="edges"']),
        (lambda: bp.jacobian(f, "u", of=["ce"]), bp.BadOption, ["several outputs", "of='ce'), once for each"]),
        (lambda: bp.hvp(f, "u", X, of=["ce"]), bp.BadOption, ["several outputs", "of='ce'), once for each"]),
        (lambda: bp.noise_floor(f, of=["ce"]), bp.BadOption, ["several outputs", "of='ce'), once for each"]),
        (
            lambda: bp.probe(f, of=["ce", "hidden"])(X, W),
            bp.BadOutput,
            ["the gradient of 'hidden'", "cotangent={'hidden': torch.ones((2,))}, or of='hidden[0]'"],
        ),
        (
            lambda: bp.probe(lambda x: {"a": x.sum(), "b": torch.ones(2).sum()}, of=["a", "b"])(X),
            bp.NothingToDifferentiate,
            ["at 'b'", "next:  leave 'b' out of of=; or "],
        ),
        (lambda: bp.probe(f, of=["ce", "klo"])(X, W), bp.BadOutput, ["nothing at 'klo'", "of='kl'"]),
    ],
)
def test_what_cannot_be_asked_for(ask, error, said):
    with pytest.raises(error) as caught:
        ask()
    for text in said:
        assert text in str(caught.value)


@pytest.mark.parametrize(
    ("read", "error", "said"),
    [
        (lambda rec: rec["u"].grad, bp.NoGradient, ["rec['u'].grads['ce']", "rec.total()['u'].grad"]),
        (lambda rec: rec["u"].grad_or_none, bp.NoGradient, ["rec['u'].grad_or_none", "ce: ok, kl: ok"]),
        (
            lambda rec: rec["ce"].grads["kl"],
            bp.NoGradient,
            ["'ce' has no gradient of 'kl': not_connected", "bp.explain(rec.of('kl'), 'ce')", ".grads.get('kl')"],
        ),
        (lambda rec: rec["u"].grads["kk"], bp.UnknownName, ["no output has the key 'kk'", "outputs: ce, kl"]),
        (lambda rec: rec.of("ce")["u"].grads["ce"], bp.UnknownName, ["a recording of one output"]),
        (lambda rec: rec.of("kk"), bp.UnknownName, ["rec.of('ce')"]),
        (lambda rec: rec.grads("kk"), bp.UnknownName, ["rec.of('ce')"]),
        (lambda rec: rec.grads(), bp.BadOption, ["rec.grads('ce')"]),
        (lambda rec: rec.backward_order(), bp.BadOption, ["rec.of('ce').backward_order()"]),
        (lambda rec: rec.total({"kk": 1}), bp.UnknownName, ["outputs: ce, kl"]),
        (lambda rec: rec.total({"ce": "1"}), bp.BadOption, ["weight of 'ce'", "rec.total({'ce': 1.0, 'kl': 1.0})"]),
        (lambda rec: rec.total({"ce": True}), bp.BadOption, ["weight of 'ce' is not a finite number", "a bool: True"]),
        (lambda rec: rec.total({"ce": np.True_}), bp.BadOption, ["weight of 'ce' is not a finite number"]),
        (lambda rec: rec.total({"ce": float("nan")}), bp.BadOption, ["weight of 'ce' is not a finite number"]),
        (lambda rec: rec.total({"ce": 1, "kl": float("inf")}), bp.BadOption, ["weight of 'kl'", "a float: inf"]),
        (lambda rec: rec.total({"ce": torch.ones(1)}), bp.BadOption, ["weight of 'ce'", "a Tensor"]),
        (lambda rec: rec.total({"ce": 1j}), bp.BadOption, ["weight of 'ce' is not a finite number"]),
        (lambda rec: rec.total({"ce": 0, "kl": 0.0}), bp.BadOption, ["every weight is 0", "'kl': 1.0})"]),
        (lambda rec: rec.total([1, 2]), bp.BadOption, ["found: a list"]),
        (lambda rec: rec.total({}), bp.BadOption, ["rec.total({'ce': 1.0, 'kl': 1.0})"]),
        (lambda rec: rec.of("ce").total(), bp.BadOption, ["of one output already"]),
        (lambda rec: bp.draw(rec), bp.BadOption, ["several outputs: ce, kl", "bp.draw(rec.of('ce'))"]),
        (lambda rec: bp.health(rec), bp.BadOption, ["bp.health(rec.total()) for their sum"]),
        (lambda rec: bp.derive(rec, "u"), bp.BadOption, ["bp.derive(rec.of('ce'), 'u')"]),
        (lambda rec: bp.diff(rec, rec), bp.BadOption, ["bp.diff(rec.of('ce'), ...)"]),
    ],
)
def test_what_is_of_one_output_says_how_to_get_it(rec, read, error, said):
    with pytest.raises(error) as caught:
        read(rec)
    for text in said:
        assert text in str(caught.value)


# showing and keeping


def test_the_table_has_a_column_for_each_output(rec):
    lines = [line.partition("test_outputs")[0].split() for line in str(rec).splitlines()]
    assert lines[0] == ["name", "value", "ce", "kl", "source"]
    assert lines[5][-4:] == ["ce", "73", "1", "not_connected"]
    assert str(rec).splitlines()[-1] == "gradients are of ce, kl"
    assert "<th>kl</th>" in rec._repr_html_()
    assert "ce: [6, 16]" in str(rec["u"])


@pytest.mark.parametrize("to", [None, "numpy"])
def test_it_is_saved_and_loaded(rec, tmp_path, to):
    rec.save(tmp_path / "saved")
    loaded = bp.load(tmp_path / "saved", to=to)
    assert str(loaded) == str(rec)
    for of in (lambda rec: rec.of("kl"), lambda rec: rec.total({"ce": 2.0, "kl": 1.0})):
        for name, gradient in of(rec).grads().items():
            assert np.array_equal(np.asarray(of(loaded)[name].grad), gradient.numpy())
    of(loaded).save(tmp_path / "sum")
    assert bp.load(tmp_path / "sum")["total()"].value == of(rec)["total()"].value


def test_it_is_copied_and_pickled(tmp_path):
    rec = bp.probe(f, of=["ce", "kl"])(X, W)
    rec.save(tmp_path / "saved")
    loaded = copy.deepcopy(bp.load(tmp_path / "saved"))
    for other in (loaded, copy.deepcopy(rec), pickle.loads(pickle.dumps(rec))):
        assert torch.equal(other["u"].grads["kl"], rec["u"].grads["kl"])
        assert torch.equal(other.total()["x"].grad, rec.total()["x"].grad)


def test_a_value_that_was_written_since_is_lost_in_all_of_them():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    rec = bp.probe(lambda x: {"a": x.sum(), "b": (x * x).sum()}, of=["a", "b"])(x)
    with torch.no_grad():
        x.add_(1)
    for one in (rec, rec.of("a"), rec.total()):
        with pytest.raises(bp.Overwritten):
            one["x"].value
