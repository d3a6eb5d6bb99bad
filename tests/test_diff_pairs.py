"""Two recordings compared: which entries of one belong to which of the other."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import backprobe as bp
from asked import message
from diff_cases import W, X, f, recorded
from goldens import golden

# which entries belong together


def test_a_rename_is_about_all_names_that_begin_so():
    class Old(nn.Module):
        def __init__(self):
            super().__init__()
            self.h = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])

        def forward(self, x):
            for layer in self.h:
                x = layer(x)
            return x.sum()

    class New(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x.sum()

    old, new = Old(), New()
    new.layers.load_state_dict(old.h.state_dict())
    a, b = bp.probe(old)(X), bp.probe(new)(X)
    report = bp.diff(a, b, rename={"h.*": "layers.*"})
    assert report.ok and report.complete and report.only_a == report.only_b == ()
    matched = {row.a.name: (row.b.name, row.match.how) for row in report.rows}
    assert matched["h.1.weight"] == ("layers.1.weight", "by the rename 'h.*': 'layers.*'")
    new.layers[1].bias.data += 1
    found = bp.diff(a, bp.probe(new)(X), rename={"h.*": "layers.*"}).first
    assert (found.name, found.other) == ("h.1.bias", "layers.1.bias")
    assert (found.kind, found.name) == ("parameter", "h.1.bias")
    golden("diff", found)
    assert found.matched == "by the rename 'h.*': 'layers.*'" and f"matched {found.matched}" in found.facts


def test_other_names_are_matched_by_shape_and_place_and_the_report_says_so():
    def g(a, b):
        prod = a * b
        sine = torch.sin(prod)
        total = sine + prod
        out = total.sum()
        return out

    report = bp.diff(recorded(f), recorded(g))
    assert report.ok and report.complete
    assert {row.a.name: row.b.name for row in report.rows} == {
        "x": "a",
        "w": "b",
        "u": "prod",
        "v": "sine",
        "y": "total",
        "loss": "out",
    }
    how = {row.a.name: row.match.how for row in report.rows}
    assert how["u"] == "by shape and place" and how["loss"] == "by name"  # return
    golden("diff", report)


def test_what_could_belong_to_several_has_no_partner():
    def right(x):
        p = torch.sin(x)
        return p.sum()

    def other(x):
        q, r = torch.sin(x), torch.sin(x)
        return (q + r).sum() / 2

    report = bp.diff(bp.probe(right)(X), bp.probe(other)(X))
    assert report.only_a == ("p",) and report.only_b == ("q", "r") and report.ok and not report.complete
    golden("diff", report)


def test_one_value_with_two_names_is_compared_with_both():
    def right(x):
        u = x * 2
        v = u
        return v.sum()

    def other(x):
        u = x * 2
        v = u.clone()
        return v.sum()

    def wrong(x):
        u = x * 2
        v = u * 1.5
        return v.sum()

    a = bp.probe(right)(X)
    assert not bp.diff(a, bp.probe(other)(X)).findings and not bp.diff(bp.probe(other)(X), a).findings
    for pair in ((right, wrong), (wrong, right)):
        report = bp.diff(*(bp.probe(one)(X) for one in pair))
        assert report.first.name in ("u", "v") and "v" in {report.first.name, report.first.other}


def test_a_pair_has_the_name_that_both_know():
    """A dropout that drops nothing returns what it was given: one tensor with two names, one of which the other has."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden, self.drop, self.out = nn.Linear(6, 32), nn.Dropout(0.25), nn.Linear(32, 2)

        def forward(self, x):
            return self.out(self.drop(self.hidden(x)))

    torch.manual_seed(0)
    reference, port, x = Model().eval(), Model(), torch.randn(8, 6)
    port.load_state_dict(reference.state_dict())
    for first, second in ((reference, port), (port, reference)):
        report = bp.diff(*(bp.probe(model, of=torch.sum)(x) for model in (first, second)))
        assert (report.first.name, report.first.other) == ("drop", "drop") and not report.amplifiers
        assert not any("no partner" in fact for one in report.findings for fact in one.facts)


def heads_first(x, w):
    q, k = ((x @ w).unflatten(-1, (2, 4)).transpose(1, 2) for _ in range(2))
    scores = q @ k.mT
    return scores.softmax(-1).square().sum()


def heads_behind(x, w):
    q, k = ((x @ w).unflatten(-1, (2, 4)) for _ in range(2))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k)
    return scores.softmax(-1).square().sum()


def heads_behind_by_mistake(x, w):
    q, k = ((x @ w).unflatten(-1, (2, 4)) for _ in range(2))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k.flip(-1))
    return scores.softmax(-1).square().sum()


@pytest.mark.parametrize("length", [5, 2])
def test_another_order_of_axes_is_no_difference_if_all_that_is_computed_from_it_agrees(length):
    """With two positions and two heads the shapes are the same, and the numbers lie otherwise."""
    torch.manual_seed(0)
    x, w = torch.randn(3, length, 8), torch.randn(8, 8)
    report = bp.diff(bp.probe(heads_first)(x, w), bp.probe(heads_behind)(x, w))
    assert report.ok and any("order of axes" in note and "'q', 'k'" in note for note in report.notes)
    wrong = bp.diff(bp.probe(heads_first)(x, w), bp.probe(heads_behind_by_mistake)(x, w))
    assert wrong.first.name == "q" and "scores" in [row.a.name for row in wrong.rows if row.value.kind]


def test_truth_values_are_equal_or_not():
    def first(x):
        mask = torch.ones(5, 5).tril().bool()
        return (x * mask).sum()

    def second(x):
        mask = torch.ones(5, 5).tril(1).bool()
        return (x * mask).sum()

    x = torch.randn(5, 5)
    found = bp.diff(bp.probe(first)(x), bp.probe(second)(x)).first
    assert found.headline == "'mask' differs: 4 of 25 elements"
    assert "floor: none: whole numbers are equal or not" in found.facts


def test_layouts_turn_weights():
    torch.manual_seed(0)

    def right(x, kernel):
        return (x @ kernel).square().sum()

    def other(x, kernel):
        return (x @ kernel.T).square().sum()

    x, kernel = torch.randn(4, 3), torch.randn(3, 2)
    a, b = bp.probe(right)(x, kernel), bp.probe(other)(x, kernel.T.contiguous())
    assert bp.diff(a, b).first.kind == "shape"
    bp.diff(a, b, layout={"kernel": "T"}).assert_ok(strict=True)
    bp.diff(a, b, layout={"k*": (1, 0)}).assert_ok(strict=True)
    image, filters = torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3)

    def conv(image, filters):
        return torch.conv2d(image, filters).sum()

    def last(image, filters):
        return torch.conv2d(image, filters.permute(3, 2, 0, 1)).sum()

    a, b = bp.probe(conv)(image, filters), bp.probe(last)(image, filters.permute(2, 3, 1, 0).contiguous())
    bp.diff(a, b, layout={"filters": (3, 2, 0, 1)}).assert_ok(strict=True)
    assert bp.diff(a, b, layout={"filters": "T"}).first.name == "filters"


# partners by path


class Scaled(nn.Module):
    """Two layers beside each other, whose parameters have the names that they are given."""

    def __init__(self, names, leaf):
        super().__init__()
        self.names, self.leaf = names, leaf
        for name in names:
            layer = nn.Module()
            setattr(layer, leaf, nn.Parameter(torch.randn(3)))
            setattr(self, name, layer)

    def forward(self, x):
        first, second = (getattr(getattr(self, name), self.leaf) for name in self.names)
        return (x * first - x / second).sum()


def copied(model, to):
    for own, other in zip(model.parameters(), to.parameters(), strict=True):
        other.data.copy_(own.data)
    return to


@pytest.mark.parametrize("leaf", ["weight", "kernel", "scale", "gamma", "embedding"])
@pytest.mark.parametrize("order", [("q", "k"), ("k", "q")])
def test_parameters_belong_together_by_the_path_of_their_module_whatever_they_are_called(leaf, order):
    torch.manual_seed(0)
    a, b = Scaled(("q", "k"), "weight"), Scaled(order, leaf)
    for name in "qk":
        getattr(getattr(b, name), leaf).data.copy_(getattr(a, name).weight.data)
    b.names = ("q", "k")
    report = bp.diff(bp.probe(a)(X), bp.probe(b)(X))
    report.assert_ok(strict=True)
    assert {row.a.name: row.b.name for row in report.rows[:2]} == {"q.weight": f"q.{leaf}", "k.weight": f"k.{leaf}"}
    getattr(b.q, leaf).data.copy_(a.k.weight.data)
    assert bp.diff(bp.probe(a)(X), bp.probe(b)(X)).first.name == "q.weight"


def test_a_module_with_a_partner_is_nobody_elses():
    torch.manual_seed(0)
    a, b = Scaled(("q", "k"), "weight"), Scaled(("k", "gate"), "kernel")
    report = bp.diff(bp.probe(a)(X), bp.probe(b)(X))
    matched = {row.a.name: (row.b.name, row.match.how) for row in report.rows}
    assert matched["k.weight"] == ("k.kernel", "by path") and matched["q.weight"][0] == "gate.kernel"


def test_modules_of_other_names_belong_together_in_the_order_in_which_they_run():
    class Called(nn.Module):
        def __init__(self, names, order):
            super().__init__()
            self.names = names
            for name in order:
                self.add_module(name, nn.Linear(3, 3))

        def forward(self, x):
            for name in self.names:
                x = getattr(self, name)(x).tanh()
            return x.sum()

    a, b = Called(("one", "two", "three"), ("one", "two", "three")), Called(("x", "y", "z"), ("z", "x", "y"))
    for name, other in zip(a.names, b.names, strict=True):
        getattr(b, other).load_state_dict(getattr(a, name).state_dict())
    report = bp.diff(bp.probe(a)(X), bp.probe(b)(X))
    report.assert_ok(strict=True)
    b.y.weight.data += 1
    assert bp.diff(bp.probe(a)(X), bp.probe(b)(X)).first.name == "two.weight"


# renames together


class Nested(nn.Module):
    def __init__(self, layers, norm):
        super().__init__()
        self.names = layers, norm
        setattr(self, layers, nn.ModuleList([nn.ModuleDict({norm: nn.Linear(3, 3)}) for _ in range(2)]))

    def forward(self, x):
        for block in getattr(self, self.names[0]):
            x = block[self.names[1]](x).tanh()
        return x.sum()


@pytest.mark.parametrize(
    "rename",
    [
        {"h.*": "layers.*", "**.ln_1": "**.norm1"},
        {"**.ln_1": "**.norm1", "h.*": "layers.*"},
        {"h.*": "layers.*", "h.*.ln_1": "layers.*.norm1"},
        {"h.*.ln_1": "layers.*.norm1", "h.0.ln_1.weight": "layers.0.norm1.weight"},
    ],
)
def test_renames_of_one_name_go_together_and_the_more_specific_wins(rename):
    a, b = Nested("h", "ln_1"), Nested("layers", "norm1")
    copied(a, b)
    report = bp.diff(bp.probe(a)(X), bp.probe(b)(X), rename=rename)
    report.assert_ok(strict=True)
    how = {row.a.name: (row.b.name, row.match.how) for row in report.rows}["h.1.ln_1.weight"]
    assert how[0] == "layers.1.norm1.weight" and how[1].startswith("by the rename ")


def test_a_rename_that_leads_nowhere_names_what_is_near():
    a, b = Nested("h", "ln_1"), Nested("layers", "norm1")
    text = message(
        bp.NothingMatched, lambda: bp.diff(bp.probe(a)(X), bp.probe(b)(X), rename={"h.*.ln_1": "layers.*.norm2"})
    )
    assert "  next:  rename={'h.0.ln_1.weight': 'layers.0.norm1.weight'}" in text


# versions


def looped(x, w):
    out = torch.zeros_like(x)
    for e in range(2):
        out = out.index_add(0, torch.tensor([e]), x[e : e + 1] * w)
    loss = out.square().sum()
    return loss


def at_once(x, w):
    out = x * w
    loss = out.square().sum()
    return loss


def in_steps(x, w):
    out = x
    out = out * w
    out = out + 0
    loss = out.square().sum()
    return loss


def by_rows(x, w):
    out = torch.zeros_like(x)
    out = torch.stack([row * w for row in x])
    loss = out.square().sum()
    return loss


VERSIONS = looped, at_once, in_steps, by_rows
ROWS, SCALES = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), torch.tensor([2.0, -1.0, 0.5])


@pytest.mark.parametrize("first", VERSIONS)
@pytest.mark.parametrize("second", VERSIONS)
def test_a_name_that_one_program_binds_more_often_is_its_last_binding(first, second):
    report = bp.diff(bp.probe(first)(ROWS, SCALES), bp.probe(second)(ROWS, SCALES))
    assert not report.findings and report.heading.startswith("no difference in "), str(report)
    pairs = [(row.a.name, row.b.name) for row in report.rows if row.a.name.startswith("out")]
    assert pairs and {name.partition("#")[0] for pair in pairs for name in pair} == {"out"}


def test_the_last_binding_is_compared():
    def wrong(x, w):
        out = x * w * 1.5
        loss = out.square().sum()
        return loss

    report = bp.diff(bp.probe(looped)(ROWS, SCALES), bp.probe(wrong)(ROWS, SCALES))
    assert (report.first.name, report.first.other) == ("out#2", "out")
    assert report.first.matched == "as the last with this name"


def test_a_binding_belongs_to_what_is_computed_in_the_same_way():
    def masked(x, w):
        weight, chosen = (x @ w).topk(2, dim=-1)
        weight = torch.where(chosen > 0, weight, weight - weight.detach())
        return (weight * 3).sum()

    def plain(x, w):
        weight, chosen = (x @ w).topk(2, dim=-1)
        return (torch.where(chosen > 0, weight, 0.0) * 3).sum()

    x, w = torch.randn(4, 3), torch.randn(3, 3)
    report = bp.diff(bp.probe(plain, wrt="w")(x, w), bp.probe(masked, wrt="w")(x, w))
    (row,) = [row for row in report.rows if row.a.name == "weight"]
    assert (row.b.name, row.match.how) == ("weight#0", "by what it is computed from")
    assert report.first is None and report.first_backward.name == "weight"
    golden("diff", report.first_backward)


# what is said of the numbers


def test_where_the_output_and_all_gradients_agree_that_is_said_first():
    def other(x, w):
        u = x * w
        v = (u + 1) * 1.0
        return (v - 1).sum() if v.numel() else v

    def right(x, w):
        u = x * w
        v = u + 0
        return v.sum()

    report = bp.diff(bp.probe(right)(X, W), bp.probe(other)(X, W))
    assert [(one.kind, one.name) for one in report] == [("value", "v")]
    golden("diff", report)


# without a measured floor


def gelu(approximate):
    def f(x, w):
        u = x @ w
        a = F.gelu(u, approximate=approximate)
        return a.square().mean()

    return f


def test_a_value_of_equal_inputs_has_the_floor_of_one_operation():
    torch.manual_seed(0)
    x, w = torch.randn(16, 8), torch.randn(8, 32)
    report = bp.diff(bp.probe(gelu("none"))(x, w), bp.probe(gelu("tanh"))(x, w))
    assert report.first.name == "a" and 1e-5 < report.first.error < 3e-4
    golden("diff", report.first.floor)


@pytest.mark.parametrize("eps", [1e-6, 2e-5])
def test_another_epsilon_behind_equal_inputs_is_found(eps):
    def normed(eps):
        def f(x):
            n = F.layer_norm(x, (8,), eps=eps)
            return n.square().mean(0).tanh().sum()

        return f

    torch.manual_seed(0)
    x = torch.randn(4, 8)
    assert bp.diff(bp.probe(normed(1e-5))(x), bp.probe(normed(eps))(x)).first.name == "n"


def test_values_that_differ_by_rounding_alone_are_listed_and_not_said_to_agree():
    def one(x, w):
        u = x * w / 3
        return u.tanh().sum()

    def other(x, w):
        u = x * w * (1 / 3)
        return u.tanh().sum()

    torch.manual_seed(0)
    x, w = torch.randn(8, 64), torch.randn(8, 64)
    report = bp.diff(bp.probe(one)(x, w), bp.probe(other)(x, w))
    report.assert_ok(strict=True)
    assert report.ok
    golden("diff", report)
    (note,) = report.notes
    golden("diff", note)


# likenesses


def test_another_order_is_said_only_of_the_same_numbers():
    rising = torch.linspace(-1, 1, 20_001)
    off = rising.clone()
    off[10_000] += 4e-4

    def times(numbers):
        return bp.probe(lambda x: (x * numbers).sum())(torch.zeros(20_001))

    facts = bp.diff(times(rising), times(off)).first_backward.facts
    assert not any("another order" in fact or "×" in fact and "the first" in fact for fact in facts)
    mixed = bp.diff(times(rising), times(rising.flip(0))).first_backward.facts
    golden("diff", bp.diff(times(rising), times(rising.flip(0))).first_backward)


def test_a_factor_is_said_only_where_it_explains_every_element():
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    off = x.clone()
    off[3] += 0.5

    def multiplied(numbers):
        return bp.probe(lambda x: (x * numbers).sum())(torch.zeros(1000))

    facts = bp.diff(multiplied(x), multiplied(off)).first_backward.facts
    assert not any("× the first" in fact for fact in facts)
    facts = bp.diff(multiplied(x), multiplied(0.9 * x)).first_backward.facts
    assert "the second is 0.9 × the first" in facts


def test_all_numbers_are_of_a_dtype_only_if_all_are():
    numbers = torch.randn(1 << 16, generator=torch.Generator().manual_seed(0)) + 3
    rounded = numbers.bfloat16().float()
    partly = torch.cat([rounded[: 1 << 15], numbers[1 << 15 :] * 1.01])

    def times(numbers):
        return bp.probe(lambda x: (x * numbers).sum())(torch.zeros(1 << 16))

    said = "all numbers of the second are bfloat16 numbers, and not those of the first"
    assert said in bp.diff(times(numbers), times(rounded)).first_backward.facts
    assert said not in bp.diff(times(numbers), times(partly)).first_backward.facts


# options


def test_each_program_of_diff_live_has_its_own_output():
    def f(x, w):
        u = x * w
        return {"loss": u.sum(), "other": u}

    def g(x, w):
        u = x * w
        return u, u.sum()

    report = bp.diff_live(f, g, of=("loss", "1"))(X, W)
    assert report.ok and not report.findings, str(report)
    assert bp.diff_live(f, g, of=("loss", lambda result: 2 * result[1]))(X, W).findings
    text = message(bp.BadOption, lambda: bp.diff_live(f, g, of=("loss", "loss", "loss")))
    assert text.startswith("of is one output, or one for each program\n  asked: of=('loss', 'loss', 'loss')")


@pytest.mark.parametrize("convention", ["torch", 3, ("flax", "jax"), ("flax",)])
def test_an_unknown_convention_is_refused(convention):
    text = message(bp.BadOption, lambda: bp.diff(recorded(f), recorded(f), convention=convention))
    assert text.startswith(
        "convention is one of pytorch, equinox, flax, keras, haiku, or one for each recording\n  asked: convention="
    )


@pytest.mark.parametrize("convention", ["flax", "keras"])
def test_a_convention_says_how_parameters_lie(convention):
    class Kernel(nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.kernel, self.bias = nn.Parameter(linear.weight.data.T.clone()), nn.Parameter(linear.bias.data.clone())

        def forward(self, x):
            return x @ self.kernel + self.bias

    class Model(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x).square().sum()

    linear = nn.Linear(3, 3)
    a, b = (bp.probe(Model(layer))(X) for layer in (linear, Kernel(linear)))
    assert bp.diff(a, b).first.name == "layer.weight"
    bp.diff(a, b, convention=convention).assert_ok(strict=True)
    bp.diff(b, a, convention=(convention, "pytorch")).assert_ok(strict=True)
