"""Every kind of binding: what names it makes, and what they hold."""

import contextlib
from types import SimpleNamespace

from programs.program import Collection

program = Collection("Names")


@program(
    "a variable bound again: `h#0`, `h#1`, each with its own value and gradient",
    (3.0, 2.0),
    {"x": (3, 7), "w": (2, 9), "h#0": (6, 3), "h#1": (18, 1), "h#2": (21, 1)},
    readings={"h#-1": "h#2", ":h#1": "h#1", "return": "h#2"},
)
def rebinding(ops):
    def f(x, w):
        h = x * w
        h = h * 3
        h = h + x
        return h

    return f


@program(
    "a second name for the same value is an alias",
    (3.0, 2.0),
    {"x": (3, 4), "w": (2, 6), "u": (6, 2), "return": (12, 1)},
    readings={"v": "u", "h": "u"},
)
def aliases(ops):
    def f(x, w):
        u = x * w
        v = u
        h = v
        h = u
        return h + v

    return f


@program(
    "several targets: `first = second = …`",
    (3.0, 2.0),
    {"x": (3, 4), "w": (2, 6), "first": (6, 2), "third": (18, 2 / 3), "return": (12, 1)},
    readings={"second": "first"},
)
def chained(ops):
    def f(x, w):
        first = second = x * w
        third = first * 3
        return third * 2 / 3 if second is first else second

    return f


@program(
    "`for`: a binding a step, and the counter beside it",
    (3.0, 2.0),
    {
        "x": (3, 6),
        "w": (2, 9),
        "total#0": (0.0, "not_tensor"),
        "i#0": (0, "not_tensor"),
        "t#0": (0, 2),
        "total#1": (0, 1),
        "i#1": (1, "not_tensor"),
        "t#1": (3, 2),
        "total#2": (6, 1),
        "i#2": (2, "not_tensor"),
        "t#2": (6, 2),
        "total#3": (18, 1),
    },
    readings={"total#-1": "total#3", "i#-1": "i#2"},
)
def loop(ops):
    def f(x, w):
        total = 0.0
        for i in range(3):
            t = x * i
            total = total + t * w
        return total

    return f


@program(
    "`while … else`, decided by a value of the program",
    (3.0, 2.0),
    {"x#0": (3, 4), "w": (2, 12), "x#1": (6, 2), "x#2": (12, 1), "y": (13, 1)},
)
def while_loop(ops):
    def f(x, w):
        while x < 10:
            x = x * w
        else:
            y = x + 1
        return y

    return f


@program("`if` on a value: the branch that ran", (3.0, 2.0), {"x": (3, 6), "w": (2, 9), "u": (6, 3), "v": (18, 1)})
def branch(ops):
    def f(x, w):
        u = x * w
        if u > 5:
            v = u * 3
        else:
            other = u - 1
            v = other
        return v

    return f


@program(
    "tuple, starred and nested targets",
    (3.0, 2.0),
    {
        "x": (3, 12),
        "w": (2, 8),
        "a": (6, 2),
        "b": (5, 3),
        "c.0": (1, 5),
        "c.1": (8, 1),
        "d.0": (12, 1),
        "d.1": (15, 1),
        "e": (5, 1),
        "first": (17, 1),
        "return": (40, 1),
    },
)
def targets(ops):
    def f(x, w):
        a, (b, *c) = x * w, (x + w, x - w, w * 4)
        *d, e = [a * 2, b * 3, c[0] * 5]
        first = e + d[0]
        return first + d[1] + c[1]

    return f


@program(
    "a loop over pairs: `for i, (p, q) in enumerate(…)`",
    (3.0, 2.0),
    {
        "x": (3, 12),
        "w": (2, 18),
        "s#0": (0, 1),
        "i#0": (0, "not_tensor"),
        "s#1": (6, 1),
        "i#1": (1, "not_tensor"),
        "q#1": (15, 2),
        "s#2": (36, 1),
    },
    readings={"p#0": "x", "q#0": "w", "p#1": "w"},
)
def loop_over_pairs(ops):
    def f(x, w):
        s = x * 0
        for i, (p, q) in enumerate([(x, w), (w, x * 5)]):
            s = s + p * q
        return s

    return f


@program(
    "`u += 1`: a version before and one after",
    (3.0, 2.0),
    {"x": (3, 6), "w": (2, 9), "u#0": (6, 3), "u#1": (7, 3), "u#2": (21, 1), "return": (19, 1)},
)
def augmented(ops):
    def f(x, w):
        u = x * w
        u += 1
        u *= 3
        return u - 2

    return f


@program(
    "augmented assignment of numbers and lists",
    (3.0, 2.0),
    {
        "x": (3, 6),
        "w": (2, 6),
        "n#0": (1, "not_tensor"),
        "n#1": (2, "not_tensor"),
        "parts#0.0": (6, 1),
        "parts#1.1": (6, 2),
        "return": (18, 1),
    },
    readings={"parts#0": "parts#0.0", "parts#1.0": "parts#0.0"},
)
def augmented_plain(ops):
    def f(x, w):
        n = 1
        n += 1
        parts = [x * n]
        parts += [w * x]
        return parts[0] + parts[1] * 2

    return f


@program(
    "`:=`, in a condition and in a call",
    (3.0, 2.0),
    {"x": (3, 4), "w": (2, 6), "u": (6, 2), "t": (0, 2), "v": (6, 2), "return": (12, 1)},
)
def walrus(ops):
    def f(x, w):
        if (u := x * w) > 0:
            v = ops.tanh(t := u * 0) + u
        return v * 2

    return f


@program(
    "attributes and elements: `box.h`, `table['a']`, `row[1]`",
    (3.0, 2.0),
    {
        "x": (3, 15),
        "w": (2, 19),
        "box.h#0": (6, 6),
        "box.inner.g": (12, 3),
        "table['a']": (15, 3),
        "row[1]": (45, 1),
        "box.h#1": (7, 0),
        "row[0]": (2, 1),
        "return": (47, 1),
    },
)
def elements(ops):
    def f(x, w):
        box, table, row = SimpleNamespace(inner=SimpleNamespace()), {}, [None, None]
        box.h = x * w
        box.inner.g = box.h * 2
        table["a"] = box.inner.g + x
        row[1] = table["a"] * 3
        box.h += 1
        for row[0] in (w * 1,):
            pass
        return row[1] + row[0] + box.h * 0

    return f


@program("`with … as`", (3.0, 2.0), {"x": (3, 5), "w": (2, 4), "p": (6, 1), "q": (9, 1), "r": (8, 1), "s": (23, 1)})
def with_targets(ops):
    def f(x, w):
        with contextlib.nullcontext((x * 2, x * 3)) as (p, q), contextlib.nullcontext(w * 4) as r:
            s = p + q + r
        return s

    return f


@program(
    "`match`: what a pattern captures",
    (3.0, 2.0),
    {"x": (3, 12), "w": (2, 18), "a": (6, 6), "b": (6, 6), "return": (36, 1)},
)
def match_captures(ops):
    def f(x, w):
        match (x * 2, {"k": w * 3}):
            case (a, {"k": b}) if a > 0:
                return a * b

    return f


@program("annotated variables", (3.0, 2.0), {"x": (3, 4), "w": (2, 6), "u": (6, 2), "later": (12, 1)})
def annotated(ops):
    def f(x: float, w: float):
        u: object = x * w
        later: object
        later = u * 2
        return later

    return f


@program(
    "variables of comprehensions and generator expressions",
    (3.0, 2.0),
    {
        "x": (3, 4),
        "w": (2, 11),
        "s#1": (4, 2),
        "parts.0": (6, 1),
        "parts.1": (8, 1),
        "total": (14, 1),
        "return": (20, 1),
    },
    readings={"t#0": "x", "s#0": "w", "t#1": "w", "p#0": "parts.0", "p#1": "parts.1"},
)
def comprehensions(ops):
    def f(x, w):
        parts = [t * s for t, s in ((x, w), (w, w * 2)) if t is not None]
        total = sum(p for p in parts)
        return total + sum({k: v * 2 for k, v in {"x": x}.items()}.values())

    return f


@program(
    "`del`, and the name bound again",
    (3.0,),
    {"x": (3, 6), "u#0": (6, 3), "v": (18, 1), "u#1": (9, 0), "return": (18, 1)},
)
def deleted(ops):
    def f(x):
        u = x * 2
        v = u * 3
        del u
        u = x + 6
        return v + u * 0

    return f


@program(
    "your own names such as `grad`, `loss`, `rec`, `self`, `tape` break nothing",
    (2.0, 3.0, 4.0, 5.0),
    {
        "grad": (2, 15),
        "type": (3, 10),
        "self": (4, 5),
        "tape": (5, 10),
        "super": (6, 5),
        "rec": (10, 5),
        "loss": (50, 1),
    },
    readings={"str": "loss", "jax": "loss"},
)
def shadows(ops):
    def f(grad, type, self, tape):
        super = grad * type
        rec = super + self
        loss = rec * tape
        for str in (loss,):
            jax = str
        return jax

    return f
