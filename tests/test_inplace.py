"""Values and gradients of every version, where a value is written in place after it got its name."""

import functools
import operator

import pytest
import torch
import torch.nn.functional as F

import backprobe as bp
from asked import on, says

C = torch.tensor([5.0, 6.0, 7.0])


def check(rec, truth):
    """Each name's value and gradient; None for a gradient that is not there."""
    for name, (value, gradient) in truth.items():
        entry = rec[name]
        assert entry.value.tolist() == value, name
        found = entry.grad_or_none
        assert (None if found is None else found.tolist()) == gradient, name


def vector():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


@on(vector(), torch.full((3,), 2.0)).gives(
    both={"u#0": ([2, 4, 6], [24, 40, 56]), "u#1": ([3, 5, 7], [24, 40, 56]), "u#2": ([6, 10, 14], [12, 20, 28])},
    names=["x", "w", "u#0", "u#1", "u#2", "return"],
)
def test_augmented_and_underscore_writes_are_versions(x, w):
    u = x * w
    u += 1
    u.mul_(2)
    return (u**2).sum()


@on(vector()).gives(both={"u#0": ([2, 4, 6], [15, 6, 7]), "v#0": (2, 15), "v#1": (6, 5), "u#1": ([6, 4, 6], [5, 6, 7])})
def test_a_write_through_a_view_reaches_the_base(x):
    u = x * 2
    v = u[0]
    v.mul_(3)
    return (u * C).sum()


@on(vector()).gives(
    both={"u#0": ([2, 4, 6], [145, 6, 7]), "v#0": (2, 145), "v#1": (6, 15), "u#1": ([6, 4, 6], [15, 6, 7])}
)
def test_a_view_used_before_and_after_a_write_through_it(x):
    u = x * 2
    v = u[0]
    s = v * 100
    v.mul_(3)
    return (u * C).sum() + v * 10 + s


@on(vector()).gives(
    both={
        "u#0": ([2, 4, 6], [15, 48, 7]),
        "v#0": ([2, 4], [0, 48]),  # the first element flows into the sum through v#1
        "q#0": ([4], [48]),
        "q#1": ([12], [16]),
        "v#1": ([2, 12], [10, 10]),
        "u#1": ([2, 12, 6], [15, 16, 7]),
    }
)
def test_a_write_through_a_view_of_a_view(x):
    u = x * 2
    v = u[0:2]
    q = v[1:2]
    q.mul_(3)
    return (u * C).sum() + (v * 10).sum()


@on(vector()).gives(
    both={"u#0": ([2, 4, 6], [75, 30, 35]), "u#1": ([10, 20, 30], [15, 6, 7]), "r#1": (10, 10), "r#0": (2, None)}
)
def test_a_write_to_a_base_gives_its_view_a_new_version(x):
    u = x * 2
    r = u[0]
    u.mul_(5)
    return (u * C).sum() + r * 10


@pytest.mark.parametrize(
    "write",
    [
        lambda t: torch.nn.ReLU(inplace=True)(t),
        lambda t: F.relu(t, inplace=True),
        lambda t: F.relu(t, True),
        lambda t: F.relu_(t),
        lambda t: torch.relu_(t),
        lambda t: t.relu_(),
        lambda t: torch.nn.Sequential(torch.nn.Identity(), torch.nn.ReLU(inplace=True))(t),
        functools.partial(F.relu, inplace=True),
        functools.partial(torch.nn.ReLU(inplace=True)),
        functools.partial(torch.relu_),
    ],
)
def test_every_spelling_of_an_inplace_relu(write):
    def f(x):
        u = x * 2 - 3
        a = write(u)
        return (a**2).sum()

    rec = bp.probe(f)(vector())
    check(rec, {"u#0": ([-1, 1, 3], [0, 2, 6]), "u#1": ([0, 1, 3], [0, 2, 6]), "a": ([0, 1, 3], [0, 2, 6])})
    assert rec["a"] is rec["u#1"]


@on(vector()).gives(
    both={
        "u#0": ([2, 4, 6], [0, 8, 0]),
        "y": (10, 0),
        "u#1": ([10, 4, 6], [0, 8, 0]),
        "u#2": ([0, 4, 0], [0, 8, 0]),
    }
)
def test_item_assignment_is_a_write(x):
    u = x * 2
    y = x[1] * 5
    u[0] = y
    u[u > 5] = 0
    return (u**2).sum()


@on(vector()).gives(both={"u#0": ([2, 4, 6], [15, 18, 7]), "u#1": ([6, 12, 6], [5, 6, 7])})
def test_augmented_item_assignment_is_one_version(x):
    u = x * 2
    u[0:2] *= 3
    return (u * C).sum()


@on(vector()).gives(both={"u#0": ([2, 4, 6], [5, 5, 5]), "s": (12, 3), "u#1": ([3, 5, 7], [2, 2, 2])})
def test_uses_before_and_after_a_write_are_kept_apart(x):
    u = x * 2
    s = u.sum()
    u.add_(1)
    return s * 3 + (u * 2).sum()


@on(vector(), torch.full((3,), 2.0)).gives(
    both={"o#0": ([0, 0, 0], None), "o#1": ([2, 4, 6], None), "return": (28, 1)}, statuses={"o#0": "frozen"}
)
def test_out_writes_into_a_value(x, w):
    o = torch.zeros(3)
    with torch.no_grad():
        torch.mul(x, w, out=o)
    return (o * x).sum()


def test_an_argument_that_is_written_is_written_for_the_caller_too():
    def f(x):
        x.mul_(3)
        return (x * C).sum()

    x = torch.tensor([1.0, 2.0, 3.0])
    rec = bp.probe(f)(x)
    check(rec, {"x#0": ([1, 2, 3], [15, 18, 21]), "x#1": ([3, 6, 9], [5, 6, 7])})
    assert x.tolist() == [3, 6, 9]
    assert x._version == 1
    assert not x.requires_grad


def test_a_write_in_a_called_function_reaches_the_callers_names():
    def scale(t):
        t.mul_(3)

    def f(x):
        u = x * 2
        first = u[0]
        scale(u)
        return (u * C).sum() + first

    rec = bp.probe(f)(vector())
    check(rec, {"u#0": ([2, 4, 6], [18, 18, 21]), "u#1": ([6, 12, 18], [6, 6, 7]), "first#1": (6, 1)})
    assert rec["/scale:t#1"] is rec["u#1"]


def test_a_name_deleted_before_the_write_gets_no_new_version():
    def f(x):
        u = x * 2
        w = u
        del w
        u.mul_(3)
        return u.sum()

    rec = bp.probe(f)(vector())
    assert rec["w"] is rec["u#0"]
    assert rec["u#1"].aliases == ()


def test_two_names_of_one_object_get_the_new_version_together():
    def f(x):
        u = x * 2
        w = u
        u += 1
        return (w * C).sum()

    rec = bp.probe(f)(vector())
    assert rec["u#1"] is rec["w#1"]
    check(rec, {"u#0": ([2, 4, 6], [5, 6, 7]), "w#1": ([3, 5, 7], [5, 6, 7])})


def test_a_write_through_data_is_never_silently_wrong():
    def f(x):
        u = x * 2
        u.data.mul_(5)
        return (u * C).sum()

    rec = bp.probe(f)(vector())
    says(rec, values={"u": [2, 4, 6]}, statuses={"u": "opaque"})
    with pytest.raises(bp.NoGradient, match=r"through \.data"):
        _ = rec["u"].grad


@on(vector()).gives(values={"u": [2, 4, 6]}, statuses={"u": "opaque"})
def test_a_write_through_numpy_is_never_silently_wrong(x):
    u = x * 2
    array = u.detach().numpy()
    array[0] = 100
    return (u * C).sum()


def test_data_that_is_set_is_never_silently_wrong():
    def f(x):
        u = x * 2
        u.data = torch.ones(2)
        return (u * u).sum()

    rec = bp.probe(f)(torch.tensor([3.0, 4.0]))
    assert rec["u"].status == "opaque"
    assert rec["u"].reason == "its .data was replaced by another tensor's, which autograd cannot see"
    assert rec["u"].value.tolist() == [6.0, 8.0]
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    with bp.probe() as rec:
        u = x * 2
        u.data = torch.ones(2)
        (u * u).sum().backward()
    assert rec["u"].status == "opaque"


@on(vector()).gives(both={"u": ([2, 4, 6], [15, 18, 21])})
def test_reading_through_data_changes_nothing(x):
    u = x * 2
    size = u.data.shape[0]
    return (u * C).sum() * size


def test_a_write_under_no_grad_leaves_no_gradient_that_could_be_wrong():
    def f(x):
        u = x * 2
        s = u * 3
        with torch.no_grad():
            u.mul_(5)
        return (u * C).sum() + s.sum()

    rec = bp.probe(f)(vector())
    says(rec, values={"u#0": [2, 4, 6], "u#1": [10, 20, 30]}, grads={"s": [1, 1, 1]})
    assert {rec["u#0"].status, rec["u#1"].status} == {bp.GradStatus.OPAQUE}


def test_a_write_out_of_sight_loses_the_value_and_says_so():
    import functools

    def f(x):
        u = x * 2
        list(map(functools.partial(torch.Tensor.mul_, u), [3.0]))
        return (u * C).sum()

    rec = bp.probe(f)(vector())
    with pytest.raises(bp.Overwritten, match='values="copy"'):
        _ = rec["u#0"].value
    check(rec, {"u#1": ([6, 12, 18], [5, 6, 7])})
    assert rec["u#0"].grad.tolist() == [15, 18, 21]
    copied = bp.probe(f, values="copy")(vector())
    check(copied, {"u#0": ([2, 4, 6], [15, 18, 21])})


def test_arguments_on_the_same_memory_are_never_silently_wrong():
    def f(x, first):
        x.mul_(3)
        return (x * C).sum() + first

    x = torch.tensor([1.0, 2.0, 3.0])
    rec = bp.probe(f)(x, x[0])
    says(rec, grads={"x#0": [15, 18, 21]}, statuses={"first#1": "opaque"})


@pytest.mark.parametrize("strategy", ["retain_grad", "hooks", "separate"])
def test_the_other_strategies_refuse_what_they_would_get_wrong(strategy):
    def f(x):
        u = x * 2
        u += 1
        return (u**2).sum()

    with pytest.raises(bp.StrategyRefused, match=r'written in place(.|\n)*strategy="edges"'):
        bp.probe(f, strategy=strategy)(vector())


@pytest.mark.parametrize("strategy", ["retain_grad", "hooks", "separate"])
def test_the_other_strategies_refuse_a_hook_of_the_users(strategy):
    def f(x):
        u = x * 2
        u.register_hook(lambda gradient: gradient * 10)
        return (u**2).sum()

    with pytest.raises(bp.StrategyRefused, match="a hook of yours"):
        bp.probe(f, strategy=strategy)(vector())


def test_the_gradient_is_what_the_users_own_hook_returns_as_in_pytorch():
    def f(x):
        u = x * 2
        u.register_hook(lambda gradient: gradient * 10)
        return (u**2).sum()

    x = vector()
    u = x * 2
    u.register_hook(lambda gradient: gradient * 10)
    u.retain_grad()
    (u**2).sum().backward()
    rec = bp.probe(f)(vector())
    says(rec, grads={"u": u.grad, "x": x.grad})


@on(torch.arange(1.0, 5.0)).gives(statuses={"z#0": "opaque"}, values={"z#0": [2 + 4j, 6 + 8j]})
def test_a_write_through_a_view_of_another_dtype_is_opaque(x):
    z = torch.view_as_complex((x * 2).reshape(2, 2))
    r = torch.view_as_real(z)
    r.mul_(2)
    return r.sum() + z.abs().sum()


def test_an_attribute_written_in_place_has_one_new_version():
    class Box:
        pass

    def f(x):
        box = Box()
        box.h = x * 2
        box.h += 1
        return (box.h * C).sum()

    check(bp.probe(f)(vector()), {"box.h#0": ([2, 4, 6], [5, 6, 7]), "box.h#1": ([3, 5, 7], [5, 6, 7])})
    assert list(bp.probe(f)(vector())) == ["x", "box.h#0", "box.h#1", "return"]


def test_a_view_that_was_written_while_no_name_held_it():
    def f(y):
        z = y[0:3]
        for u in (y, z):
            z = u
            z *= 2.0
        return z.sum()

    rec = bp.probe(f)(torch.ones(3))
    assert "opaque" not in {entry.status for entry in rec.values()}
    assert rec["y#0"].grad.tolist() == [4, 4, 4]


def test_a_view_that_a_call_out_of_sight_wrote_is_opaque():
    import functools

    def f(x):
        u = x * 2
        v = u[0:2]
        list(map(functools.partial(torch.Tensor.mul_, v), [3.0]))
        return (u * C).sum() + v.sum()

    rec = bp.probe(f, values="copy")(vector())
    assert rec["u#0"].grad.tolist() == [18, 21, 7]
    assert {rec["v#0"].status, rec["v#1"].status} == {bp.GradStatus.OPAQUE}


@on(vector()).gives(both={"v": (6, 15), "u#1": ([6, 4, 6], [15, 6, 7]), "u#0": ([2, 4, 6], [45, 6, 7])})
def test_a_view_that_gets_its_first_name_from_the_write_through_it(x):
    u = x * 2
    v = u[0].mul_(3)
    return (u * C).sum() + v * 10


@on(vector()).gives(
    both={"z#0": ([2, 4, 6], [-5 - 6, -7, 0]), "z#1": ([-2, -1.5, -3.5], [5, 6, 7]), "q#0": ([2, 4], [-11, -7])},
    statuses={"q#1": "not_connected"},
)
def test_a_write_through_a_view_followed_by_one_to_its_base_in_the_same_statement(x):
    z = x * 2
    q = z[0:2]
    z[1:3] = 0.5 + q.neg_()
    return (z * C).sum()


@on(vector()).gives(both={"n#0": (4, 21), "n#1": (4, 14), "n#2": (12, 7), "u#1": ([2, 12, 6], [5, 7, 7])})
def test_a_name_that_its_own_operand_rebinds(x):
    u = x * 2
    n = u[1]
    n += (n := n.clone()) * 2
    return (u * C).sum() + n


def test_unbound_methods_operators_and_overloads_write_in_sight():
    def f(x, w):
        u = x * 2
        torch.Tensor.mul_(u, w)
        operator.iadd(u, x)
        operator.setitem(u, 0, w[0])
        torch.ops.aten.mul_(u, 2.0)
        torch.ops.aten.add_.Tensor(u, x)
        torch.add(u, 1.0, out=(kept := torch.empty(3)))  # and one that writes elsewhere
        return (u * C).sum()

    x, w = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3.0, 3.0, 3.0])
    with torch.no_grad():
        expected = [x * 2, x * 6, x * 7, torch.tensor([3.0, 14, 21]), torch.tensor([6.0, 28, 42])]
        expected.append(expected[-1] + x)

    def without_out(x, w):
        u = x * 2
        torch.Tensor.mul_(u, w)
        operator.iadd(u, x)
        operator.setitem(u, 0, w[0])
        torch.ops.aten.mul_(u, 2.0)
        torch.ops.aten.add_.Tensor(u, x)
        return (u * C).sum()

    rec = bp.probe(without_out)(x, w)
    for count, value in enumerate(expected):
        assert torch.equal(rec[f"u#{count}"].value, value)
    assert rec["u#0"].grad.tolist() == [0, 36, 42]
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        bp.probe(f)(x, w)
