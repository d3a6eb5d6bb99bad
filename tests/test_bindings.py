"""Every kind of binding has its name, and the gradient that a closed form gives."""

import contextlib
import dataclasses
import functools
from collections import namedtuple

import torch
import torch.nn.functional as F

import backprobe as bp
from asked import W, X, grads


def test_rebinding_counts():
    def f(x, w):
        h = x * w
        h = h * 3
        h = h + x
        return h

    assert grads(f) == {"x": 7, "w": 9, "h#0": 3, "h#1": 1, "h#2": 1}


def test_rebinding_to_the_same_object_is_no_new_binding():
    def f(x, w):
        h = x * w
        h = F.dropout(h, training=False)
        h = h
        return h * 2

    assert grads(f) == {"x": 4, "w": 6, "h": 2, "return": 1}


def test_loops():
    def f(x, w):
        total = 0.0
        for i in range(3):
            t = x * i
            total = total + t * w
        return total

    rec = bp.probe(f)(X, W)
    assert [rec[f"t#{k}"].grad.item() for k in range(3)] == [2, 2, 2]
    assert rec["total#0"].status == "not_tensor"
    assert [rec[f"total#{k}"].grad.item() for k in (1, 2, 3)] == [1, 1, 1]
    assert rec["i#2"].value == 2
    assert rec["w"].grad.item() == 9


def test_while_and_else():
    def f(x, w):
        n = 0
        while n < 2:
            x = x * w
            n += 1
        else:
            y = x + 1
        return y

    assert grads(f) == {"x#0": 4, "w": 12, "x#1": 2, "x#2": 1, "y": 1}


def test_loop_over_tensors_and_tuple_targets():
    def f(x, w):
        s = x * 0
        for i, (p, q) in enumerate([(x, w), (w, x * 5)]):
            s = s + p * q
        return s

    rec = bp.probe(f)(X, W)
    assert rec["p#0"] is rec["x"]
    assert rec["q#1"].grad.item() == 2
    assert rec["x"].grad.item() == 12


def test_tuple_starred_and_nested_targets():
    def f(x, w):
        a, (b, *c) = x * w, (x + w, x - w, w * 4)
        *d, e = [a * 2, b * 3, c[0] * 5]
        first = second = e + d[0]
        return first + d[1] + c[1]

    found = grads(f)
    assert found["a"] == 2
    assert found["b"] == 3
    assert found["c.0"] == 5
    assert found["c.1"] == 1
    assert found["d.1"] == 1
    assert found["e"] == 1
    assert found["first"] == 1
    assert bp.probe(f)(X, W)["second"] is not None


def test_augmented_assignment_of_numbers_and_lists():
    def f(x, w):
        n = 1
        n += 1
        parts = [x * n]
        parts += [w * x]
        return parts[0] + parts[1] * 2

    rec = bp.probe(f)(X, W)
    assert rec["n#1"].value == 2
    assert rec["parts#1.1"].grad.item() == 2
    assert rec["parts#0"].grad.item() == 1


def test_walrus_also_in_a_condition_and_a_call():
    def f(x, w):
        if (u := x * w).item() > 0:
            v = torch.tanh(t := u * 0) + u
        return v * 2

    found = grads(f)
    assert (found["u"], found["t"], found["v"]) == (2, 2, 2)


class Box:
    pass


def test_attribute_and_subscript_targets():
    def f(x, w):
        box, table, row = Box(), {}, [None, None]
        box.inner = Box()
        box.h = x * w
        box.inner.g = box.h * 2
        table["a"] = box.inner.g + x
        row[1] = table["a"] * 3
        box.h += 1
        for row[0] in (w * 1,):
            pass
        return row[1] + row[0] + box.h * 0

    found = grads(f)
    assert found["box.h#0"] == 6
    assert found["box.inner.g"] == 3
    assert found["table['a']"] == 3
    assert found["row[1]"] == 1
    assert found["row[0]"] == 1


def test_with_targets():
    @contextlib.contextmanager
    def scaled(value):
        yield value * 2, value * 3

    def f(x, w):
        with scaled(x) as (p, q), contextlib.nullcontext(w * 4) as r:
            s = p + q + r
        return s

    found = grads(f)
    assert {name: found[name] for name in ("p", "q", "r", "s", "x", "w")} == {
        "p": 1, "q": 1, "r": 1, "s": 1, "x": 5, "w": 4,
    }  # fmt: skip


def test_match_captures():
    def f(x, w):
        match (x * 2, {"k": w * 3}):
            case (a, {"k": b}) if a.item() > 0:
                return a * b

    assert grads(f) == {"x": 12, "w": 18, "a": 6, "b": 6, "return": 1}


def test_annotated_bindings():
    def f(x: float, w: float):
        u: torch.Tensor = x * w
        later: torch.Tensor
        later = u * 2
        return later

    assert grads(f) == {"x": 4, "w": 6, "u": 2, "later": 1}


def test_comprehension_variables():
    def f(x, w):
        parts = [t * s for t, s in ((x, w), (w, w * 2)) if t is not None]
        total = sum(p for p in parts)
        return total + sum({k: v * 2 for k, v in {"x": x}.items()}.values())

    rec = bp.probe(f)(X, W)
    assert rec["s#1"].grad.item() == 2
    assert rec["p#1"] is rec["parts.1"]
    assert rec["x"].grad.item() == 4


def test_nested_functions_and_closures():
    scale = torch.tensor(5.0)

    def f(x, w):
        def inner(t):
            v = t * w * scale
            return v

        return inner(x) + inner(w)

    rec = bp.probe(f)(X, W)
    assert rec["/inner#0:v"].grad.item() == 1
    assert rec["/inner#1:v"].value.item() == 20
    assert rec["w"].grad.item() == 15 + 20


def test_a_closure_that_changes_its_cell():
    def f(x, w):
        state = x * w

        def step():
            nonlocal state
            state = state * 2

        step()
        step()
        return state

    rec = bp.probe(f)(X, W)
    assert rec["state"].grad.item() == 4
    assert rec["/step#0:state"].grad.item() == 2
    assert rec["x"].grad.item() == 8


def test_lambdas_two_on_one_line():
    def f(x, w):
        double, triple = (lambda t: t * 2), (lambda t: t * 3)
        return double(x) * triple(w)

    rec = bp.probe(f)(X, W)
    assert rec["/<lambda>#0"].grad.item() == 6
    assert rec["/<lambda>#1"].grad.item() == 6
    assert bp.probe(lambda x: x * 7)(2.0)["x"].grad.item() == 7


class Model:
    factor = 2.0

    def __init__(self, w):
        self.__w = w

    def __private(self, x):
        hidden = x * self.__w
        return hidden

    def method(self, x):
        y = self.__private(x) * self.factor
        return y

    @classmethod
    def made(cls, x):
        z = x * cls.factor
        return z

    @staticmethod
    def plain(x):
        q = x * 4
        return q

    @property
    def shape(self):
        return 1

    def __call__(self, x):
        called = self.method(x)
        return called


class Child(Model):
    def method(self, x):
        base = super().method(x)
        return base * 10


def test_methods_private_names_super_and_callable_objects():
    model = Model(torch.tensor(5.0))
    assert grads(model.method, X) == {"x": 10, "/__private:hidden": 2, "y": 1}
    assert grads(Model.made, X)["z"] == 1
    assert grads(Model.plain, X)["x"] == 4
    assert grads(model, X)["called"] == 1
    child = grads(Child(torch.tensor(5.0)).method, X)
    assert child["base"] == 10
    assert child["/method/__private:hidden"] == 20


def test_partial_objects():
    def f(x, w, *, power):
        u = x**power
        return u * w

    assert grads(functools.partial(f, power=2), X, W) == {"x": 12, "w": 9, "u": 2, "return": 1}

    def g(x):
        return functools.partial(f, w=2.0, power=3)(x)

    assert grads(g, 2.0)["/f:u"] == 2


def traced(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return wrapper


def bare_decorator(function):
    def wrapper(t):
        inner = function(t)
        return inner * 2

    return wrapper


@traced
@traced
def decorated(x, w):
    u = x * w
    return u + 1


@bare_decorator
def hidden(x):
    u = x * 3
    return u


def test_decorated_functions():
    rec = bp.probe(decorated)(X, W)
    assert rec["u"].grad.item() == 4
    assert rec["x"].grad.item() == 8
    assert rec.result.item() == 28
    assert rec["return#0"].grad.item() == 4
    assert rec["return#-1"].grad.item() == 1

    def calls(x):
        return decorated(x, 2.0) + hidden(x)

    found = bp.probe(calls)(X)
    assert found["/decorated:u"].grad.item() == 4
    assert found["/wrapper:inner"].grad.item() == 2
    assert found["/wrapper/hidden:u"].grad.item() == 2


def test_recursion():
    def power(x, n):
        if n == 0:
            return x * 0 + 1
        rest = power(x, n - 1)
        out = rest * x
        return out

    rec = bp.probe(power)(2.0, 3)
    assert rec["x"].grad.item() == 12
    assert rec["out"].value.item() == 8
    assert rec["/power/power:out"].value.item() == 2
    assert rec["/power/power:out"].grad.item() == 4


def test_generators():
    def terms(x, count):
        t = x
        for _ in range(count):
            t = t * x
            yield t

    def f(x):
        total = x * 0
        for term in terms(x, 2):
            total = total + term * 3
        return total + sum(terms(x, 1))

    rec = bp.probe(f)(2.0)
    assert rec["term#1"].value.item() == 8
    assert rec["term#1"].grad.item() == 3
    assert rec["/terms#0:t#1"] is rec["term#0"]
    assert rec["x"].grad.item() == 3 * (4 + 12) + 4


def test_map_reduce_and_comprehension_calls_are_followed():
    def double(t):
        d = t * 2
        return d

    def f(x, w):
        return functools.reduce(lambda a, b: a + b, map(double, (x, w)))

    rec = bp.probe(f)(X, W)
    assert rec["/double#1:d"].grad.item() == 1
    assert rec["w"].grad.item() == 2


Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Out:
    loss: torch.Tensor
    extra: object = None


def test_container_leaves_by_their_own_keys():
    def f(x, w):
        pair = Pair(x * 2, w * 3)
        nested = {"deep": [pair.left * w, None], "odd.key": x * 1}
        out = Out(loss=nested["deep"][0] + pair.right + nested["odd.key"])
        return out

    rec = bp.probe(f, of="loss")(X, W)
    assert rec["pair.left"].grad.item() == 2
    assert rec["pair.right"].grad.item() == 1
    assert rec["nested.deep.0"].grad.item() == 1
    assert rec["nested.deep.1"].status == "not_tensor"
    assert rec["nested.`odd.key`"].grad.item() == 1
    assert rec["out.loss"].grad.item() == 1
    assert rec["return.extra"].status == "not_tensor"
    assert rec["out"] is rec["out.loss"]  # its only floating tensor


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * gradient


def test_custom_functions():
    def f(x, w):
        c = Cube.apply(x)
        return c * w

    assert grads(f) == {"x": 54, "w": 27, "c": 2, "return": 1}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)

    def forward(self, x):
        h = self.inner(x)
        g = torch.tanh(h)
        return g * 2


def test_a_module_of_the_users_called_inside_a_function_is_followed():
    net = Net()
    seen = []
    net.register_forward_hook(lambda module, args, output: seen.append(output))

    def f(x):
        first = net(x)
        second = net(first)
        return second.sum()

    rec = bp.probe(f)(torch.ones(3, 2))
    assert rec["/Net#1:g"].grad.tolist() == [[2.0, 2.0]] * 3
    assert rec["/Net#0"] is rec["first"]
    assert len(seen) == 2
    assert "forward" not in vars(net)


def test_modules_called_inside_a_function_leave_their_parameters_to_the_flags():
    layer = torch.nn.Linear(2, 1)

    def f(x):
        h = layer(x)
        return (h * 3).sum()

    rec = bp.probe(f)(torch.ones(4, 2))
    assert rec["h"].grad.tolist() == [[3.0]] * 4
    assert torch.allclose(rec["x"].grad, 3 * layer.weight.expand(4, 2))
    assert layer.weight.grad is None


def test_a_comprehension_variable_is_not_the_functions_variable_of_that_name():
    def f(x, w):
        t = x * 3
        twice = [t * 2 for t in (x, w)]
        again = [t * 2 for t in (x,)]
        t.mul_(5)
        x.mul_(7)
        return t + twice[0] + again[0]

    rec = bp.probe(f)(torch.tensor(X), torch.tensor(W))
    assert rec["t#0"].grad.item() == 5
    assert rec["t#1"] is rec["t#3"] is rec["x#0"]  # in the first comprehension and in the second
    assert rec["t#2"] is rec["w"]
    assert rec["t#4"].grad.item() == 1  # after the write; the comprehensions' variables are gone
    assert "t#5" not in rec
    assert "x#1" in rec


def test_a_walrus_in_an_f_string():
    def f(x):
        text = f"{(u := x * 2):.1f} and {x}"
        return u * len(text)

    assert bp.probe(f)(X)["u"].grad.item() == len("6.0 and 3.0")
