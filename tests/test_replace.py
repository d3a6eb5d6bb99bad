"""``replace=`` and ``replace_grad=`` in functions and blocks of PyTorch, against the program written by hand."""

import gc
import weakref

import numpy
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import backprobe as bp
from asked import same


def toy(x, w):
    u = x * w
    v = u + 1
    pair = u, 3
    return torch.relu(v) * pair[1] + pair[0]


X, W = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 0.5])


def probed(replace=None, function=toy, **options):
    return bp.probe(function, cotangent=torch.ones(2), replace=replace, **options)(X, W)


def test_a_value_goes_on_in_the_place_of_another():
    instead = torch.tensor([2.0, 5.0])
    rec = probed({"u": instead})
    assert same(rec["u"].value, instead)
    assert same(rec["u"].original, X * W)
    assert rec["u"].replaced
    assert not rec["v"].replaced
    assert same(rec["v"].original, rec["v"].value)
    assert same(rec["v"].value, instead + 1)
    assert same(rec["u"].grad, torch.tensor([4.0, 4.0]))
    assert rec["x"].status == rec["w"].status == bp.GradStatus.NOT_CONNECTED
    assert rec["pair.0"] is rec["u"]


def test_a_function_of_the_value_is_differentiated_through():
    rec = probed({"u": lambda u: u * 2})
    assert same(rec["u"].value, X * W * 2)
    assert same(rec["x"].grad, rec["u"].grad * 2 * W)


def test_an_entry_of_another_recording():
    clean = bp.probe(toy, cotangent=torch.ones(2))(W, W)
    rec = probed({"u": clean["u"]})
    assert same(rec["u"].value, W * W)
    assert same(probed({"*": clean})["v"].value, clean["v"].value)


def test_what_is_replaced_has_an_entry_whatever_is_selected():
    assert list(probed({"u": torch.zeros_like}, select="v")) == ["u", "v", "return"]


def test_the_users_own_tensor_stays_as_it_is():
    def writing(x):
        u = x * 2
        u.mul_(3)
        return u

    instead, leaf = torch.ones(2), torch.ones(2, requires_grad=True)
    rec = bp.probe(writing, cotangent=torch.ones(2), replace={"u": instead})(X)
    assert same(instead, torch.ones(2))
    assert same(rec["u#0"].value, torch.ones(2))
    assert same(rec["u#0"].grad, torch.full((2,), 3.0))
    assert same(rec["u#1"].value, torch.full((2,), 3.0))
    bp.probe(writing, cotangent=torch.ones(2), replace={"u": leaf})(X)
    assert same(leaf.detach(), torch.ones(2))
    assert leaf.grad is None


def test_a_function_may_write_to_what_it_is_given():
    def halved(u):
        u[0] = 7.0
        return u

    def aliased(x):
        v = x * 2
        u = v
        return u + v

    rec = bp.probe(aliased, cotangent=torch.ones(2), replace={"u": halved})(X)
    assert same(rec["u"].original, X * 2)
    assert same(rec["v"].value, X * 2), "earlier aliases stay as they are"
    assert same(rec["u"].value, torch.tensor([7.0, -4.0]))
    assert same(rec["x"].grad, torch.tensor([2.0, 4.0]))


def test_a_count_chooses_the_binding():
    def loop(x):
        u = x
        for _ in range(3):
            u = u * 2
        return u

    rec = bp.probe(loop, cotangent=torch.ones(2), replace={"u#1": lambda u: u + 1})(X)
    assert same(rec.result.detach(), (X * 2 + 1) * 4)
    assert [entry.name for entry in rec.values() if entry.replaced] == ["u#1"]
    every = bp.probe(loop, cotangent=torch.ones(2), replace={"u": lambda u: u + 1})(X)
    assert sum(entry.replaced for entry in every.values()) == 4
    assert same(every.result.detach(), ((((X + 1) * 2 + 1) * 2 + 1) * 2 + 1))


def test_a_value_that_is_written_in_place_is_the_new_one():
    def augmented(x):
        u = x * 2
        alias = u
        u += 1
        return u * 3 + alias

    rec = bp.probe(augmented, cotangent=torch.ones(2), replace={"u#1": lambda u: u * 10})(X)
    assert same(rec["u#1"].value, (X * 2 + 1) * 10)
    assert same(rec["alias#1"].value, X * 2 + 1)
    assert same(rec["x"].grad, torch.full((2,), 2 * 31.0))


def test_names_of_called_functions_attributes_and_items():
    def inner(z):
        out = z * 2
        return out

    class Box:
        pass

    def calling(x):
        box, items = Box(), [None]
        box.kept = inner(x)
        items[0] = inner(box.kept)
        (a, b), c = (x[0], x[1]), [each * 2 for each in items]
        return box.kept + items[0] + a + b + c[0]

    def run(name):
        return bp.probe(calling, cotangent=torch.ones(2), replace={name: lambda value: value * 0 + 1})(X).result

    first, second = X * 2, X * 4
    total = X.sum()
    assert same(run("/inner#0:out").detach(), 1 + 2 + total + 4 + 0 * X)
    assert same(run("/inner#1:return").detach(), first + 1 + total + 2)
    assert same(run("box.kept").detach(), 1 + 2 + total + 4 + 0 * X)
    assert same(run("items[0]").detach(), first + 1 + total + 2)
    assert same(run("a").detach(), first + second + 1 + X[1] + second * 2)
    assert same(run("each").detach(), first + second + total + 2)
    assert same(run("x").detach(), torch.full((2,), 2.0 + 4 + 2 + 8))
    assert same(run("return").detach(), torch.ones(2))


def test_a_leaf_of_a_container():
    def several(x):
        d = {"k": x * 2, "n": 3, "deep": [x, (x * 3, None)]}
        alias = d
        return d["k"] * d["n"] + d["deep"][1][0] + alias["k"]

    def run(name, what=torch.zeros_like):
        return bp.probe(several, cotangent=torch.ones(2), replace={name: what})(X)

    assert same(run("d.k").result.detach(), X * 3)
    assert same(run("d.deep.1.0").result.detach(), X * 8)
    assert same(run("d.n", 5).result.detach(), X * 15)
    assert run("d.n", 5)["d.n"].original == 3
    with pytest.raises(bp.BadOption, match=r"'d' holds several floating tensors"):
        run("d")


def test_a_number_takes_the_place_of_a_number():
    def power(x):
        n = 2
        return x**n

    rec = bp.probe(power, cotangent=torch.ones(2), replace={"n": 3})(X)
    assert same(rec["x"].grad, 3 * X**2)
    assert (rec["n"].value, rec["n"].original, rec["n"].replaced) == (3, 2, True)


def test_numpy_and_numbers_become_tensors():
    rec = bp.probe(lambda x: (x * 2).sum(), replace={"x": numpy.ones(2, numpy.float32)})(X)
    assert same(rec["x"].value, torch.ones(2))

    def scalar(x):
        s = x.sum()
        return s * s

    assert same(bp.probe(scalar, replace={"s": 3})(X)["s"].grad, torch.tensor(6.0))


def test_replacements_apply_in_their_order():
    rec = probed({"u": lambda u: u + 1, "*u": lambda u: u * 2})
    assert same(rec["u"].value, (X * W + 1) * 2)
    assert same(rec["u"].original, X * W)


def test_the_functions_themselves_are_not_recorded():
    def helper(u):
        inside = u * 2
        return inside

    assert list(probed({"u": helper})) == list(bp.probe(toy, cotangent=torch.ones(2))(X, W))


def test_a_probe_without_replacing_is_not_touched_by_one_with():
    for _ in range(2):
        assert probed({"u": torch.zeros_like})["u"].replaced
        plain = bp.probe(toy, ["u", "v"], cotangent=torch.ones(2))(X, W)
        assert not any(entry.replaced for entry in plain.values())
        other = probed({"u": torch.ones_like}, select=["u", "v"])
        assert same(other["u"].value, torch.ones(2))


def test_saved_and_loaded(tmp_path):
    rec = probed({"u": torch.zeros_like}, replace_grad={"v": lambda g: g * 2})
    rec.save(tmp_path / "rec")
    loaded = bp.load(tmp_path / "rec")
    assert loaded["u"].replaced
    assert same(loaded["u"].original, X * W)
    assert loaded["v"].replaced_grad
    assert not loaded["v"].replaced
    assert same(loaded["v"].original, loaded["v"].value)
    assert str(loaded) == str(rec)
    assert "replaced: u\ngradient replaced: v\n" in str(rec)
    assert "original: " in str(rec["u"])


def test_partials_derive_and_second_order_go_through_a_replaced_value():
    rec = bp.probe(lambda x: (x * x).sum(), partials=True, create_graph=True, replace={"x": lambda x: x * 3})(X)
    assert same(rec["x"].grad.detach(), X * 6)
    assert rec.path_sums.worst is None or rec.path_sums.ok


# gradients


def test_a_gradient_is_changed_where_it_flows_on():
    rec = probed(replace_grad={"v": lambda gradient: gradient * 10})
    assert rec["v"].replaced_grad
    assert same(rec["v"].grad, torch.tensor([30.0, 0.0])), "what flows on is shown"
    assert same(rec["u"].grad, rec["v"].grad + 1)
    assert same(rec["x"].grad, rec["u"].grad * W)
    assert same(rec["v"].value, X * W + 1)
    assert rec.notes == ()


def test_a_gradient_may_be_a_tensor_or_another_recordings():
    other = bp.probe(toy, cotangent=torch.ones(2))(W, W)
    assert same(probed(replace_grad={"u": torch.ones(2)})["x"].grad, W)
    assert same(probed(replace_grad={"u": other["u"]})["x"].grad, other["u"].grad * W)


def test_a_users_own_hook_is_still_noted():
    def hooked(x):
        u = x * 2
        u.register_hook(lambda gradient: gradient * 2)
        return u

    rec = bp.probe(hooked, cotangent=torch.ones(2), replace_grad={"u": lambda gradient: gradient + 1})(X)
    assert same(rec["x"].grad, torch.full((2,), 8.0)), "hooks run in the order in which they were put on"
    assert "a hook is on it" in rec.notes[0]


def test_a_gradient_of_another_shape_is_refused():
    with pytest.raises(bp.BadOption, match=r"what replaces the gradient of 'u' has another shape"):
        probed(replace_grad={"u": lambda gradient: gradient.sum()})
    with pytest.raises(bp.BadOption, match="cannot be combined with partials"):
        probed(replace_grad={"u": torch.ones(2)}, partials=True)
    with pytest.raises(bp.BadOption, match="cannot be combined with strategy"):
        probed(replace_grad={"u": torch.ones(2)}, strategy="hooks")


def test_nothing_is_left_on_a_users_leaf():
    leaf = torch.ones(2, requires_grad=True)
    bp.probe(toy, cotangent=torch.ones(2), replace_grad={"x": lambda gradient: gradient * 2})(leaf, W)
    assert not leaf._backward_hooks


# what is refused


@pytest.mark.parametrize(
    "replace, said",
    [
        ({"u": torch.ones(3)}, "'u' has another shape\n.*\n  found: shape \\(3,\\) in the place of \\(2,\\)"),
        ({"u": torch.ones(2, dtype=torch.float64)}, "'u' has another dtype"),
        ({"u": torch.ones(2, device="meta")}, "'u' has another device"),
        ({"u": lambda u: None}, "what replaces 'u' is not a tensor"),
        ({"u": lambda u: u.sum()}, "'u' has another shape"),
        ({"u": numpy.ones(2)}, "'u' has another dtype"),
        ({"u": None}, "None cannot take the place of a value"),
        ({"u": {"k": 1}}, "a dict cannot take the place of a value"),
        ({"pair.1": torch.ones(2)}, "is an int, and cannot be replaced by a Tensor"),
        ({3: torch.ones(2)}, "asked for by names and patterns"),
        ({"!u": torch.ones(2)}, "asked for by names and patterns"),
        ([("u", 1)], "a dict from names"),
    ],
)
def test_what_does_not_fit_is_refused(replace, said):
    with pytest.raises(bp.BadOption, match=said):
        probed(replace)


def test_a_count_that_is_not_there_or_not_known_yet():
    def program(x):
        u = x * 2
        u = u + 1
        u.mul_(3)
        return u.sum()

    for text in ("u#3", "u#2"):  # the last was made by a write
        with pytest.raises(bp.NothingMatched) as caught:
            bp.probe(program, replace={text: torch.zeros_like})(X)
        assert "found: u#0, u#1, u#2" in str(caught.value)
        assert "next:  replace={'u': ...}" in str(caught.value)
    with pytest.raises(bp.BadName, match="cannot take the last one") as caught:
        bp.probe(program, replace={"u#-1": torch.zeros_like})
    assert "next:  replace={'u#0': ...}, where #0 is the first" in str(caught.value)


def test_a_gradient_that_does_not_arrive_is_not_said_to_be_replaced():
    def program(x):
        with torch.no_grad():
            cut = x * 2
        aside = x * 3
        return (cut * x).sum(), aside

    rec = bp.probe(program, of=0, replace_grad={name: lambda g: g * 0 for name in ("cut", "aside", "x")})(X)
    assert [name for name, entry in rec.items() if entry.replaced_grad] == ["x"]
    assert "gradient replaced: x\n" in str(rec)
    said = "replace_grad= changed nothing here, as no gradient arrives"
    assert [note for note in rec.notes if said in note] == [f"cut: {said} (no_grad)", f"aside: {said} (not_connected)"]


@pytest.mark.parametrize("text", ["u[0]", "u[..., 0]", "u#0[1:]", ":u[0]", "/helper:w[0]"])
@pytest.mark.parametrize("option", ["replace", "replace_grad"])
def test_a_part_of_a_value_is_replaced_by_a_function(option, text):
    def helper(z):
        w = z * 2
        return w

    def program(x):
        u = x * 2
        return helper(u).sum()

    with pytest.raises(bp.BadOption) as caught:
        bp.probe(program, **{option: {text: lambda value: value * 0}})(X)
    assert f"{option} takes the names of whole values, and {text!r} is a part of one" in str(caught.value)
    whole, bracket, inside = text.rpartition("[")
    assert f"next:  {option}={{{whole!r}: change}}, where change(" in str(caught.value)
    assert f"returns it with {bracket}{inside} changed" in str(caught.value)


def test_an_item_that_a_statement_writes_has_a_name_with_an_index():
    def program(x):
        z = {}
        z["a"] = x * 2
        return z["a"].sum()

    rec = bp.probe(program, replace={"z['a']": torch.zeros_like})(X)
    assert same(rec["z['a']"].value, torch.zeros(2))


def test_another_recording_is_given_by_names():
    clean = probed()
    for given, named in (
        ({"replace": clean}, "replace={'x': recording} for one, or replace={'**': recording} for all"),
        ({"replace": clean["u"]}, "replace={'u': entry}"),
        ({"replace_grad": clean}, "replace_grad={'x': recording['x']}"),
    ):
        with pytest.raises(bp.BackprobeError) as caught:
            bp.probe(toy, **given)
        assert f"next:  {named}" in str(caught.value)
        assert "the names say which values of this program are replaced" in str(caught.value)


def test_every_value_of_another_recording():
    def several(x, w):
        u = x * w
        pair = (u + 1, u * 2)
        return {"sum": (pair[0] * pair[1]).sum(), "pair": pair}

    clean = bp.probe(several, of="sum")(X + 1, W)
    rec = bp.probe(several, of="sum", replace={"**": clean})(X, W)
    for name, entry in rec.items():
        assert entry.replaced, name
        assert same(entry.value, clean[name].value), name
    rec = bp.probe(several, of="sum", replace={"pair": clean})(X, W)
    assert [name for name, entry in rec.items() if entry.replaced] == ["pair.0", "pair.1"]
    assert same(rec["return.sum"].value, clean["return.sum"].value)


def test_a_recording_without_the_value_names_those_that_it_has():
    clean = probed(select=["x", "v"])
    with pytest.raises(bp.BadOption) as caught:
        probed({"u": clean})
    assert "the other recording has no value named 'u'\n" in str(caught.value)
    assert "found: names: x, v, return" in str(caught.value)
    assert "next:  a recording that selects 'u'" in str(caught.value)
    assert "#0" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_name_that_never_comes_up():
    with pytest.raises(bp.NothingMatched, match=r"'uu' matches nothing in toy\n.*replace=\{'uu'"):
        probed({"uu": torch.ones(2)})
    with pytest.raises(bp.NothingMatched, match="not bound with that count"):
        probed({"u#3": torch.ones(2)})
    with pytest.raises(bp.NothingMatched, match=r"replace_grad=\{'vv'"):
        probed(replace_grad={"vv": torch.ones(2)})


def test_a_pattern_that_meets_only_numbers():
    def power(x):
        n, many = 2, [3, torch.tensor(1)]
        return x**n * many[0]

    def refused(**options):
        with pytest.raises(bp.NothingMatched) as caught:
            bp.probe(power, cotangent=torch.ones(2), **options)(X)
        return str(caught.value)

    said = refused(replace={"n*": 3})
    assert said.startswith("the pattern 'n*' matches no floating-point tensor in power\n")
    assert "found: 'n' is an int\n" in said
    assert "next:  replace={'n': ...}" in said
    assert "found: 'many.0' is an int, 'many.1' is a Tensor\n" in refused(replace={"many.*": 3})
    assert "found: 'many.0' is an int, 'many.1' is a Tensor\n" in refused(replace={"man*": 3})
    assert "why:   only floating-point tensors have gradients" in refused(replace_grad={"n*": torch.ones(2)})


def test_a_block_notes_a_pattern_that_meets_only_numbers():
    class Power(nn.Module):
        def forward(self, x):
            n = 2
            return (x**n).sum()

    model = Power()
    with bp.probe(model, "**:*", replace={":n*": 3}) as rec:
        model(X.clone().requires_grad_()).backward()
    assert rec.notes == ("replace has ':n*', which named no floating-point tensor: nothing was replaced",)


def test_the_error_of_a_function_says_where_it_was_called():
    with pytest.raises(ZeroDivisionError) as raised:
        probed({"u": lambda u: u / (1 // 0)})
    assert "raised by what replace has for 'u'" in raised.value.__notes__[0]


def test_a_program_that_catches_the_refusal_is_refused_when_it_is_over():
    def catching(x):
        try:
            u = x * 2
        except bp.BadOption:
            u = x
        return u

    with pytest.raises(bp.BadOption, match="another shape"):
        bp.probe(catching, cotangent=torch.ones(2), replace={"u#0": torch.ones(3)})(X)


def test_a_checkpoint_is_refused():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False).sum()

    with pytest.raises(bp.Unsupported, match=r"'inner\.0' is inside a checkpoint"):
        bp.probe(Checkpointed(), replace={"inner.0": torch.zeros_like})(X)


@pytest.mark.parametrize("form", ["model", "block"])
def test_a_refusal_is_not_left_to_the_garbage_collector(form):
    """It would keep the frames of the program, and on old releases of PyTorch a checkpoint's hooks with them."""

    class Inner(nn.Linear):
        def forward(self, x):
            return super().forward(x)

    def refused():
        model, replace = nn.Sequential(Inner(2, 2)), {"0": torch.ones(3)}
        try:
            if form == "model":
                bp.probe(model, replace=replace)(X)
            with bp.probe(model, replace=replace):
                model(X)
        except bp.BadOption as error:
            return weakref.ref(error)

    gc.collect()
    gc.disable()
    try:
        error = refused()
        assert error is not None
        assert error() is None
    finally:
        gc.enable()


def test_a_block_without_a_model_is_refused():
    with pytest.raises(bp.Unsupported, match="not available in a block without a model"):
        with bp.probe(replace={"u": torch.ones(2)}):
            pass


def test_explain_names_what_was_replaced():
    report = bp.explain(probed({"u": torch.ones(2)}), "w")
    assert (
        report.findings[0].headline == "replace= put another value into the place of 'u', which was computed from 'w'"
    )
