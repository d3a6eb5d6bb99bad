"""The program under a probe is the program: what it sees, raises and hands back is its own."""

import collections
import dataclasses
import functools

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import backprobe as bp
from asked import X, says


def test_what_looks_at_the_frame_sees_the_programs_own_names():
    def f(x):
        u = x * 2
        names = sorted(locals()), dir(), sorted(vars()), len([0 for _ in vars(Named)]) * 0
        exec("u * 1")
        return u * len(names[0]) * eval("len(names[1]) * 2") + eval("z", {"z": 1.0}) + names[3], names[0]

    rec = bp.probe(f, of=0)(X)
    plain = f(torch.tensor(X))
    assert rec.result[0].item() == plain[0].item()
    assert rec.result[1] == plain[1] == ["u", "x"]


def test_a_function_behind_lru_cache_is_named_in_a_note():
    @functools.lru_cache
    def cached(n):
        return n * 2

    rec = bp.probe(lambda x: x * cached(3))(X)
    assert rec["x"].grad.item() == 6
    assert any("cached was not followed: it is hidden in an object of type _lru_cache_wrapper" in n for n in rec.notes)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:The .grad attribute:UserWarning")
def test_a_compiled_function_called_inside_runs_as_it_is():
    @torch.compile(fullgraph=True, backend="eager")
    def compiled(a):
        b = a * 3
        return b + 1

    def f(x):
        u = compiled(x * 2)
        return u * x

    rec = bp.probe(f)(X)
    assert rec["x"].grad.item() == 19 + 18
    assert not any("compiled" in name for name in rec)


@dataclasses.dataclass
class State:
    value: torch.Tensor
    total: float = dataclasses.field(init=False, default=0.0)

    def __post_init__(self):
        made.append(self)


made = []


class Named(dict):
    def __init__(self, **items):
        super().__init__(items)


def test_containers_of_arguments_stay_the_callers_own():
    def f(items, table, state, named, array, w):
        items.append(w * 2)
        table["new"].append(1)
        state.value = state.value * 3
        array[0] = 5
        return items[0] * items[1] * table["a"][0] * state.value * named["k"] + array.sum() * state.total

    import numpy

    items, table = [torch.tensor(2.0)], collections.defaultdict(list, a=[torch.tensor(3.0)])
    first, second, named, array = items[0], table["a"][0], Named(k=torch.tensor(4.0)), numpy.ones(2)
    state = State(torch.tensor(5.0))
    kept, count = named["k"], len(made)
    rec = bp.probe(f)(items, table, state, named, array, 1.0)
    says(rec, grads={"items.0": 2 * 3 * 15 * 4, "table.a.0": 2 * 2 * 15 * 4, "named.k": 2 * 2 * 3 * 15})
    assert items[0] is first
    assert len(items) == 2
    assert table["a"][0] is second
    assert table["new"] == [1]
    assert named["k"] is kept
    assert state.value.item() == 15
    assert len(made) == count
    assert array.tolist() == [5, 1]
    assert not first.requires_grad


class Counting(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


class Dispatched(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


class Seeing(torch.Tensor):
    seen = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("mode", [Counting, Dispatched])
def test_modes_of_the_users_see_the_same_operations(mode):
    def f(x):
        with mode() as active:
            u = x * 2
            v = u[0:1]
            u += 1
            u.mul_(3)
            w = u.data
            z = torch.relu(u).sum() + v.sum()
        seen.append(active.seen)
        return z

    seen = []
    x = torch.ones(2, requires_grad=True)
    f(x)
    rec = bp.probe(f)(x)
    assert seen[0] == seen[1]
    assert rec["u#1"].grad.tolist() == [6, 3]


def test_subclasses_of_the_users_see_the_same_operations():
    def f(x):
        u = x * 2
        u += 1
        return (u * u).sum()

    x = torch.ones(2).as_subclass(Seeing).requires_grad_()
    Seeing.seen.clear()
    f(x)
    bare = list(Seeing.seen)
    Seeing.seen.clear()
    bp.probe(f)(x)
    assert [func for func in Seeing.seen if func in bare] == bare


def test_a_leaf_that_gets_its_name_in_inference_mode():
    weight = torch.tensor(2.0, requires_grad=True)

    def f(x):
        u = x * weight
        with torch.inference_mode():
            p = weight
        return u * p

    rec = bp.probe(f)(torch.tensor(3.0, requires_grad=True))
    assert (rec["p"].grad.item(), rec["x"].grad.item()) == (12.0, 4.0)


def test_a_frame_that_raises_stands_at_its_own_line():
    """A notebook shows where a frame stands, not where its traceback says that it stood."""

    def f(x):
        y = x * 2
        z = y[5]
        return z

    with pytest.raises(IndexError) as caught:
        bp.probe(f)(torch.ones(2))
    frame = next(entry for entry in caught.traceback if entry.name == "f")
    assert frame._rawentry.tb_frame.f_lineno == frame._rawentry.tb_lineno == f.__code__.co_firstlineno + 2


@pytest.mark.parametrize("options", [{}, {"nonfinite": True}, {"strategy": "hooks"}, {"partials": True}])
def test_arguments_that_share_a_history_stay_differentiable(options):
    """As in a VAE's loss: what was decoded is computed from the mean, which is given as well."""

    def loss_function(decoded, mean):
        return (decoded * mean).square().sum()

    def step(probing):
        w = torch.tensor([0.5, 1.5], requires_grad=True)
        mean = w.exp()
        decoded = mean.sigmoid()
        if probing:
            bp.probe(loss_function, **options)(decoded, mean)
        loss_function(decoded, mean).backward()
        return w.grad

    assert torch.equal(step(True), step(False))


def test_a_model_that_is_given_what_its_own_weights_computed_leaves_that_differentiable():
    def step(probing):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh())
        code = net(torch.ones(2, 3))
        if probing:
            bp.probe(net, of=lambda out: out.sum())(code)
        net(code).sum().backward()
        return net[0].weight.grad

    assert torch.equal(step(True), step(False))


def test_what_a_function_closes_over_stays_differentiable():
    def step(probing):
        w = torch.tensor([0.5, 1.5], requires_grad=True)
        mean = w.exp()

        def f(x):
            weight = w
            u = mean * x
            return (u * weight).sum()

        if probing:
            bp.probe(f, ["weight", "u"])(torch.ones(2))
        f(torch.ones(2)).backward()
        return w.grad

    assert torch.equal(step(True), step(False))


@dataclasses.dataclass
class Settings:
    """What is read of it, also what Python reads for ``isinstance``."""

    scale: float = 2.0
    read = []

    def __getattribute__(self, name):
        Settings.read.append(name)
        return super().__getattribute__(name)


SETTINGS = Settings()


class Scaled(torch.nn.Module):
    def forward(self, x):
        settings = SETTINGS
        held = {"settings": settings}
        return (x * held["settings"].scale).sum()


def test_an_object_is_not_asked_for_its_class_when_a_name_is_bound_to_it():
    model = Scaled()
    for _ in range(3):  # the second block knows the program
        Settings.read.clear()
        with bp.probe(model, ["**", "**:*"]) as rec:
            model(torch.tensor(X, requires_grad=True)).backward()
        assert Settings.read == ["scale"]
        assert rec[":x"].grad.item() == 2
