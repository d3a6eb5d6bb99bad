"""Values that reach a name, or leave one, by other ways than a plain assignment."""

import dataclasses

from programs.program import Collection

program = Collection("Values by other ways")


@program("a value kept in a list before it is bound", (3.0,), {"x": (3, 16), "u": (6, 8), "return": (48, 1)})
def kept_first(ops):
    def f(x):
        kept, table = [], {}
        kept.append(x * 2)
        table.setdefault("k", kept[0])
        u = kept[0]
        return u * 3 + table["k"] * 5

    return f


@program("a value that code out of sight creates and keeps", (3.0,), {"x": (3, 16), "u": (6, 8), "return": (48, 1)})
def kept_out_of_sight(ops):
    space = {}
    exec("def made(x, kept):\n    kept.append(x * 2)\n    return kept[0]", space)
    made = space["made"]

    def f(x):
        kept = []
        u = made(x, kept)
        return u * 3 + kept[0] * 5

    return f


@program(
    "`yield from`",
    (2.0,),
    {"x": (2, 16), "total#0": (0, 1), "term#0": (4, 3), "total#1": (4, 1), "term#1": (8, 1), "total#2": (12, 1)},
    readings={"/terms/inner:first": "term#0", "/terms/inner:second": "term#1"},
)
def yield_from(ops):
    def inner(x):
        first = x * x
        yield first
        second = first * x
        yield second

    def terms(x):
        yield from inner(x)

    def f(x):
        total = x * 0
        for term in terms(x):
            total = total + term
        return total

    return f


@program(
    "containers passed in and out of functions",
    (3.0, 2.0),
    {"x": (3, 16), "w": (2, 22), "out.sum": (5, 6), "out.both.0": (6, 5), "return": (32, 1)},
    readings={
        "s": "out.sum",
        "/parts:return.sum": "out.sum",
        "p": "out.both.0",
        "q": "w",
        "out.both.1.0": "w",
        "/parts:pair.0": "x",
        "/parts:table.w": "w",
    },
)
def through_containers(ops):
    def parts(pair, *, table):
        a, b = pair
        return {"sum": a + b, "both": (a * table["w"], [b])}

    def f(x, w):
        out = parts((x, w), table={"w": w})
        s, (p, [q]) = out["sum"], out["both"]
        return s * p + q

    return f


@program(
    "`*` and `**` in a call",
    (3.0, 2.0),
    {"x": (3, 8), "w": (2, 6), "/inner:c": (6, 2), "h": (12, 2), "return": (24, 1)},
    readings={"/inner:a": "x", "/inner:b": "w", "/inner": "h"},
)
def unpacked_calls(ops):
    def inner(a, b, c):
        return a * b + c

    def f(x, w):
        h = inner(*[x, w], **{"c": x * 2})
        return h * 2

    return f


@program(
    "an unpacked tensor: `p, q = x`, `for row in x`",
    ([2.0, 3.0],),
    {
        "x": ([2, 3], [6, 10]),
        "p": (2, 3),
        "q": (3, 7),
        "s#0": (6, 1),
        "row#0": (2, 3),
        "s#1": (12, 1),
        "row#1": (3, 3),
        "s#2": (21, 1),
    },
)
def taken_apart(ops):
    def f(x):
        p, q = x
        s = p * q
        for row in x:
            s = s + row * q
        return s

    return f


@program(
    "Python's own `sum`, `max`, `abs`, `sorted`, `zip`, `int`",
    (3.0, 2.0),
    {
        "x": (3, 40),
        "w": (2, 20),
        "largest": (6, -4),
        "low": (4, 8),
        "high": (6, 12),
        "size": (4, "not_tensor"),
        "total": (26, 4),
        "return": (80, 1),
    },
    readings={"a#0": "x", "a#1": "w", "b#0": "high", "b#1": "low"},
    smooth=False,
)
def builtins(ops):
    def f(x, w):
        largest = max(x * w, x)
        low, high = sorted([x * 2, w * 2], key=int)
        size = int(low)
        total = sum(a * b for a, b in zip((x, w), (high, low)))
        return abs(total - largest) * size

    return f


@program(
    "a conditional expression and `or`: aliases of what was chosen",
    (3.0, 2.0),
    {"x": (3, 4), "w": (2, 6), "v": (4, 3), "return": (12, 1)},
    readings={"u": "x"},
)
def chosen(ops):
    def f(x, w):
        u = x if x > w else w
        v = None or w * 2
        return u * v

    return f


@dataclasses.dataclass
class Layer:
    scale: object
    seen: list = dataclasses.field(default_factory=list)

    @property
    def twice(self):
        return self.scale * 2

    def apply(self, x):
        h = x * self.twice
        self.seen.append(h)
        return h


@program(
    "an object created inside, its properties and what it collects",
    (3.0, 2.0),
    {"x": (3, 36), "w": (2, 78), "y": (12, 9), "z": (48, 1), "return": (108, 1)},
    readings={
        "layer.scale": "w",
        "/apply#1:self.scale": "w",
        "/apply#0:h": "y",
        "/apply#1:self.seen.0": "y",
        "/apply#1:x": "y",
        "/apply#1": "z",
    },
)
def objects(ops):
    def f(x, w):
        layer = Layer(w)
        y = layer.apply(x)
        z = layer.apply(y)
        return z + layer.seen[0] * 5

    return f


@program("`:=` in an f-string, and values in texts", (3.0,), {"x": (3, 6), "u": (6, 3), "return": (18, 1)})
def texts(ops):
    def f(x):
        text = f"{int(u := x * 2)}.0"
        return u * len(text)

    return f


@program(
    "`try … except … finally`", (3.0,), {"x": (3, 6), "u": (6, 3), "v": (18, 1), "w": (19, 1)}, readings={"return": "w"}
)
def tried(ops):
    def f(x):
        try:
            u = x * 2
            raise KeyError(u)
        except KeyError as error:
            v = error.args[0] * 3
        finally:
            w = v + 1
        return w

    return f


STEPS = {
    name: said
    for step in range(12)
    for name, said in ((f"_#{step}", (step, "not_tensor")), (f"h#{step + 1}", (step + 2, 1)))
}


@program(
    "many bindings of one name: `h#10` after `h#9`",
    (1.0,),
    {"x": (1, 13), **STEPS},
    readings={"h#0": "x", "h#-1": "h#12"},
)
def many(ops):
    def f(x):
        h = x
        for _ in range(12):
            h = h + x
        return h

    return f


@program(
    "numbers computed from numbers stay numbers",
    (3.0, 2),
    {"x": (3, 0.5), "n": (2, "not_tensor"), "half": (0.5, "not_tensor"), "return": (1.5, 1)},
)
def integer_quotient(ops):
    def f(x, n):
        half = n / 4
        return x * half

    return f


@program(
    "two functions of one name, and a function that returns one",
    (3.0,),
    {"x": (3, 8), "/scaled#0:factor": (2, "not_tensor"), "/apply#0:s": (6, 1), "/apply#1:s": (9, 1), "return": (15, 1)},
    readings={"/scaled#1:factor": "x", "/apply#1:t": "x"},
)
def made_functions(ops):
    def scaled(factor):
        def apply(t):
            s = t * factor
            return s

        return apply

    def f(x):
        first, second = scaled(2), scaled(x)
        return first(x) + second(x)

    return f
