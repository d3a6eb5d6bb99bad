"""Calls of a program's own functions: whatever can be called, and the scopes that it makes."""

import functools

from programs.program import Collection

program = Collection("Calls of your functions")


@program(
    "a function called twice: `/inner#0:v`, `/inner#1:v`, and the cells it closes over",
    (3.0, 2.0),
    {
        "x": (3, 10),
        "w": (2, 35),
        "scale": (5.0, "not_tensor"),
        "/inner#0:v": (30, 1),
        "/inner#1:v": (20, 1),
        "return": (50, 1),
    },
    readings={"/inner#0": "/inner#0:v", "/inner#0:t": "x", "/inner#1:t": "w"},
)
def closures(ops):
    def f(x, w):
        scale = 5.0

        def inner(t):
            v = t * w * scale
            return v

        return inner(x) + inner(w)

    return f


@program(
    "a function of a module, and one that it calls in turn",
    (1.0,),
    {"x": (1, 6), "/outer:h": (2, 3), "return": (6, 1)},
    readings={
        "/outer:t": "x",
        "/outer/double:t": "x",
        "/outer/double": "/outer:h",
        "/outer/double:d": "/outer:h",
        "/outer:g": "return",
        "/outer": "return",
    },
)
def nested(ops):
    def f(x):
        return outer(x)

    return f


def double(t):
    d = t * 2
    return d


def outer(t):
    h = double(t)
    g = h * 3
    return g


@program(
    "a closure that changes its cell",
    (3.0, 2.0),
    {"x": (3, 8), "w": (2, 12), "state": (6, 4), "/step#0:state": (12, 2), "return": (24, 1)},
    readings={"/step#1:state": "return"},
)
def nonlocal_cell(ops):
    def f(x, w):
        state = x * w

        def step():
            nonlocal state
            state = state * 2

        step()
        step()
        return state

    return f


@program(
    "lambdas, two on one line",
    (3.0, 2.0),
    {"x": (3, 12), "w": (2, 18), "/<lambda>#0:return": (6, 6), "/<lambda>#1:return": (6, 6), "return": (36, 1)},
    readings={"/<lambda>#0": "/<lambda>#0:return", "/<lambda>#1:t": "w"},
)
def lambdas(ops):
    def f(x, w):
        double, triple = (lambda t: t * 2), (lambda t: t * 3)
        return double(x) * triple(w)

    return f


@program(
    "recursion: `/power/power:out`",
    (2.0, 2),
    {
        "x": (2, 4),
        "n": (2, "not_tensor"),
        "/power:n": (1, "not_tensor"),
        "/power/power:n": (0, "not_tensor"),
        "/power:rest": (1, 4),
        "rest": (2, 2),
        "out": (4, 1),
    },
    readings={"/power:out": "rest", "/power/power": "/power:rest", "/power/power:x": "x"},
)
def recursion(ops):
    def power(x, n):
        if n == 0:
            return x * 0 + 1
        rest = power(x, n - 1)
        out = rest * x
        return out

    return power


@program(
    "generators",
    (2.0,),
    {
        "x": (2, 48),
        "total#0": (0, 1),
        "/terms:count": (2, "not_tensor"),
        "/terms:_#0": (0, "not_tensor"),
        "term#0": (4, 9),
        "total#1": (12, 1),
        "/terms:_#1": (1, "not_tensor"),
        "term#1": (8, 3),
        "total#2": (36, 1),
    },
    readings={"/terms:t#1": "term#0", "/terms:t#-1": "term#1"},
)
def generators(ops):
    def terms(x, count):
        t = x
        for _ in range(count):
            t = t * x
            yield t

    def f(x):
        total = x * 0
        for term in terms(x, 2):
            total = total + term * 3
        return total

    return f


@program(
    "defaults, keywords, `*args` and `**kwargs`",
    (3.0, 2.0),
    {
        "x": (3, 44),
        "w": (2, 12),
        "power": (2, "not_tensor"),
        "/helper:scale": (3.0, "not_tensor"),
        "/helper:h#0": (11, 6),
        "/helper:h#1": (13, 6),
        "u": (39, 2),
        "return": (78, 1),
    },
    readings={"/helper:t": "x", "/helper:named.factor": "x", "/helper:others.0": "w", "/helper:shift": "w"},
)
def signatures(ops):
    def helper(t, scale=2.0, *others, shift, **named):
        h = t * scale + shift
        for other in others:
            h = h + other
        return h * named["factor"]

    def f(x, w, *, power=2):
        u = helper(x, 3.0, w, shift=w, factor=x)
        return u * power

    return f


class Model:
    factor = 2.0

    def __init__(self, scale):
        self.__scale = scale
        self.cache = None

    def __private(self, x):
        hidden = x * self.__scale
        return hidden

    def method(self, x):
        y = self.__private(x) * self.factor
        self.cache = y * 3
        return y

    @classmethod
    def made(cls, x):
        z = x * cls.factor
        return z

    @staticmethod
    def plain(x):
        q = x * 4
        return q

    def __call__(self, x):
        called = self.method(x)
        return called + self.cache


class Child(Model):
    def method(self, x):
        base = super().method(x)
        return base * 10


@program(
    "methods, private names and attributes set by a method: `self.cache`",
    (3.0,),
    {"x": (3, 10), "/__private:hidden": (15, 2), "y": (30, 1), "self.cache": (90, "not_connected")},
)
def methods(ops):
    return Model(5.0).method


@program(
    "`super()`",
    (3.0,),
    {
        "x": (3, 100),
        "/method/__private:hidden": (15, 20),
        "base": (30, 10),
        "/method:self.cache": (90, "not_connected"),
        "return": (300, 1),
    },
    readings={"/method": "base", "/method:y": "base"},
)
def inherited(ops):
    return Child(5.0).method


@program("class and static methods", (3.0,), {"x": (3, 6), "/made:z": (6, 1), "/plain:q": (12, 1), "return": (18, 1)})
def class_methods(ops):
    def f(x):
        return Model.made(x) + Model.plain(x)

    return f


@program(
    "objects with `__call__`",
    (3.0,),
    {
        "x": (3, 40),
        "/method/__private:hidden": (15, 8),
        "called": (30, 4),
        "/method:self.cache": (90, 1),
        "return": (120, 1),
    },
    readings={"/method": "called"},
)
def callable_objects(ops):
    return Model(5.0)


@program(
    "`functools.partial`",
    (3.0, 2.0),
    {"x": (3, 12), "w": (2, 9), "power": (2, "not_tensor"), "u": (9, 2), "return": (18, 1)},
)
def partial_objects(ops):
    def f(x, w, *, power):
        u = x**power
        return u * w

    return functools.partial(f, power=2)


def doubled(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return wrapper


@doubled
def decorated(x, w):
    u = x * w
    return u + 1


@program(
    "decorated functions",
    (3.0, 2.0),
    {"x": (3, 8), "w": (2, 26), "/decorated:u": (6, 4), "/decorated:return": (7, 4), "h": (14, 2), "return": (28, 1)},
)
def decorators(ops):
    def f(x, w):
        h = decorated(x, w)
        return h * w

    return f


@program(
    "a decorator around the probed function: what each of them returns",
    (3.0, 2.0),
    {"x": (3, 4), "w": (2, 6), "u": (6, 2), "return#0": (7, 2), "return#1": (14, 1)},
    readings={"return#-1": "return#1"},
)
def decorated_root(ops):
    return decorated


@program(
    "`map` and `functools.reduce`",
    (3.0, 2.0),
    {"x": (3, 2), "w": (2, 2), "/double#0:d": (6, 1), "/double#1:d": (4, 1), "return": (10, 1)},
    readings={"/<lambda>:a": "/double#0:d", "/<lambda>:b": "/double#1:d", "/<lambda>": "return"},
)
def higher_order(ops):
    def f(x, w):
        return functools.reduce(lambda a, b: a + b, map(double, (x, w)))

    return f


@program(
    "a function without source text is called, and not followed", (3.0,), {"x": (3, 6), "u": (6, 3), "return": (18, 1)}
)
def sourceless(ops):
    space = {}
    exec("def made(x):\n    h = x * 2\n    return h", space)
    made = space["made"]

    def f(x):
        u = made(x)
        return u * 3

    return f
