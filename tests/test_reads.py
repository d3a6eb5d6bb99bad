"""The source behind each entry: the operation, and the values that its expression mentions."""

from types import SimpleNamespace

import torch

import backprobe as bp
from asked import on


def toy(x, w, b):
    u = x * w
    v = u + b
    a = torch.relu(v)
    return a


def vector(*numbers):
    return torch.tensor(numbers or (1.0, 2.0, 3.0))


def explained(rec):
    """Name -> the expression that computes it, and what that spells as which entry."""
    return {
        name: (entry.source.expression, {read.spelled: read.name for read in entry.reads})
        for name, entry in rec.items()
        if entry.source
    }


B0 = 2.0


@on(3.0, 2.0).gives(
    reads={"a": ("x * w", {"x": "x", "w": "w"}), "b": ("x + B0", {"x": "x"}), "c": ("w - 1", {"w": "w"})}
)
def test_each_element_of_a_written_tuple_is_its_own_expression(x, w):
    a, (b, c) = x * w, (x + B0, w - 1)
    return a * b * c


@on(vector(1.0, 2.0)).gives(reads=dict.fromkeys("abd", ("", {"x": "x"})))
def test_what_a_call_returns_in_parts_has_no_expression(x):
    a, b = torch.unbind(x)
    *c, d = x * 2, x * 3
    return a * b * d.sum() * c[0].sum()


@on(3.0, 1.0).gives(reads={"u#1": ("u + b", {"u": "u#0", "b": "b"}), "u#2": ("u + u", {"u": "u#1"})})
def test_an_augmented_assignment_reads_the_version_before(x, b):
    u = x * 2
    u += b
    u += u
    return u


@on(3.0).gives(reads={"k#1": ("k + 1", {"k": "k#0"}), "return": ("x * k", {"x": "x", "k": "k#1"})})
def test_an_augmented_assignment_of_a_number_reads_the_binding_before(x):
    k = 2
    k += 1
    return x * k


@on(3.0).gives(reads={"u#1": ("u + x", {"u": "u#0", "x": "x"})})
def test_a_name_bound_again_reads_its_last_binding(x):
    u = x * 2
    u = u + x
    return u


@on(3.0).gives(reads={"u": ("x * 2", {"x": "x"}), "y": ("(u := (x * 2)) + 1", {"x": "x", "u": "u"})})
def test_a_walrus_is_its_expression_and_is_read(x):
    y = (u := x * 2) + 1
    return y


def test_return_is_its_expression():
    assert explained(bp.probe(lambda x, w: x * w)(3.0, 2.0))["return"] == ("x * w", {"x": "x", "w": "w"})

    def f(x):
        u = x * 2
        return u

    assert explained(bp.probe(f)(3.0))["u"] == ("x * 2", {"x": "x"})  # one entry, and what computed it


def test_calls_that_were_followed_are_read_in_order():
    def func(t):
        r = t * 2
        return r

    def other(t):
        return t + 1

    def f(x):
        y = func(x) * other(x) + func(x)
        return y

    rec = bp.probe(f)(3.0)
    reads = [(read.spelled, read.name) for read in rec["y"].reads]
    assert reads[0] == ("x", "x")
    assert reads[1:] == [("func()", "/func#0:r"), ("other()", "/other:return"), ("func()", "/func#1:r")]
    assert rec["y"].source.expression == "func(x) * other(x) + func(x)"


@on(3.0).gives(reads={"y": ("x * 3", {"x": "x"}), "v": ("u * y", {"u": "u", "y": "y"})})
def test_a_call_of_an_earlier_statement_is_not_read(x):
    def func(t):
        return t * 2

    func(x)
    y = x * 3
    u = func(y)
    v = u * y
    return v


def test_a_leaf_of_a_container_is_read_by_its_path():
    def f(x):
        pair = x * 2, x * 3
        table = {"k": x * 4, "n": [x * 5]}
        return pair[0] * table["k"] * table["n"][0]

    rec = bp.probe(f)(3.0)
    assert explained(rec)["pair.0"] == ("x * 2", {"x": "x"})
    assert explained(rec)["pair.1"] == ("x * 3", {"x": "x"})
    assert {read.spelled: read.name for read in rec["return"].reads} == {
        "pair.0": "pair.0",
        "pair.1": "pair.1",
        "table.k": "table.k",
        "table.n.0": "table.n.0",
    }


@on(3.0).gives(reads={"y": ("box.h * 3", {"box.h": "box.h"})})
def test_an_attribute_is_read_as_it_is_spelled(x):
    box = SimpleNamespace()
    box.h = x * 2
    y = box.h * 3
    return y


@on(3.0).gives(reads={"return": ("x * cut * n", {"x": "x", "cut": "cut", "n": "n"})}, inputs={"return": ["x"]})
def test_what_is_not_differentiated_is_read_too(x):
    n = 3
    cut = (x * 2).detach()
    return x * cut * n


def test_what_is_not_selected_is_not_read():
    rec = bp.probe(toy, ["x", "v", "b"])(3.0, 2.0, 1.0)
    assert explained(rec)["v"] == ("u + b", {"b": "b"})


@on(torch.ones(3)).gives(reads={"y": ("z * 3", {"z": "z#1"})})
def test_a_read_after_a_write_through_a_slice_is_of_the_new_version(x):
    z = x * 1
    z[0:2] *= 2
    y = z * 3
    return y.sum()


@on(torch.tensor(3.0), select=["x", "c"]).gives(reads={"return": ("d * c", {"c": "c"})})
def test_the_output_has_its_expression_also_where_it_is_not_selected(x):
    c = x * 2
    d = c + 1
    return d * c


def paired(x, y):
    """Every way in which a loop takes several at once."""
    found = 0
    for row, target in zip(x, y, strict=True):
        found = found + ((row - target) ** 2).sum()
    for _, (one, (other, third)) in enumerate(zip(x, zip(y, x, strict=True), strict=True)):
        found = found + (one * other * third).sum()
    for key, held in {"x": x}.items():
        kept = held[0] if key else held
    terms = [(r - t).sum() for r, t in zip(x, y, strict=True)]
    for pair in zip(x, y, strict=True):
        found = found + pair[0].sum()
    return found + kept.sum() + sum(terms)


READ = {
    "row#0": "x",
    "target#0": "y",
    "one#0": "x",
    "other#0": "y",
    "third#0": "x",
    "r#0": "x",
    "t#0": "y",
    "pair#0.0": "x",
    "pair#0.1": "y",
}


def test_a_loop_over_several_at_once_reads_each_for_its_own_name():
    x, y = torch.ones(2, 3, requires_grad=True), torch.zeros(2, 3)
    in_function = bp.probe(paired, of=lambda found: found)(x, y)
    with bp.probe() as in_block:
        paired(x, y).backward()
    for rec, scope in ((in_function, ""), (in_block, "/paired:")):
        found = {name: [read.spelled for read in rec[scope + name].reads] for name in READ}
        assert found == {name: [read] for name, read in READ.items()}
        assert rec[f"{scope}target#0"].status == "frozen"  # and not detached from x
        assert rec[f"{scope}row#0"].status == "ok"
