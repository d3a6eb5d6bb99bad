"""Bindings that only PyTorch's programs have; see ``programs`` for those that every framework has."""

import functools

import torch
import torch.nn.functional as F

import backprobe as bp
from asked import Parts, W, X, grads, on, says
from custom import custom


def test_rebinding_to_the_same_object_is_no_new_binding():
    def f(x, w):
        h = x * w
        h = F.dropout(h, training=False)
        h = h
        return h * 2

    assert grads(f) == {"x": 4, "w": 6, "h": 2, "return": 1}


def test_partial_objects():
    def f(x, w, *, power):
        u = x**power
        return u * w

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
    says(rec, grads={"u": 4, "x": 8, "return#0": 4, "return#-1": 1})
    assert rec.result.item() == 28

    def calls(x):
        return decorated(x, 2.0) + hidden(x)

    found = bp.probe(calls)(X)
    says(found, grads={"/decorated:u": 4, "/wrapper:inner": 2, "/wrapper/hidden:u": 2})


Cube = custom("Cube", lambda x: x**3, lambda gradient, x: 3 * x**2 * gradient)


def test_custom_functions():
    def f(x, w):
        c = Cube.apply(x)
        return c * w

    assert grads(f) == {"x": 54, "w": 27, "c": 2, "return": 1}


class Net(Parts):
    def forward(self, x):
        h = self.inner(x)
        g = torch.tanh(h)
        return g * 2


def test_a_module_of_the_users_called_inside_a_function_is_followed():
    net = Net(inner=torch.nn.Linear(2, 2))
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


@on(X).gives(grads={"u": len("6.0 and 3.0")})
def test_a_walrus_in_an_f_string(x):
    text = f"{(u := x * 2):.1f} and {x}"
    return u * len(text)
