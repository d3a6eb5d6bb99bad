"""Programs with every kind of statement that stores, deletes or reads names; all compute ``loss`` of ``x``, ``w``."""

from backprobe.source.raw_variables import CRASHES

PROGRAMS = {
    "comprehension": """\
parts = [k * 1.0 for k in range(3)]
ys = [x * p for p in parts]
loss = sum(ys) + w
""",
    "nested_comprehensions": """\
rows = [[a * b for a in (x, w)] for b in (1.0, 2.0)]
flat = [u for row in rows for u in row if u is not None]
loss = torch.stack(flat).sum()
""",
    "comprehension_of_a_name_that_is_used": """\
k = x * 2
ks = [k * 3 for k in (w, x)]
loss = k + sum(ks)
""",
    "dict_and_set_comprehensions": """\
named = {name: value * 2 for name, value in zip("ab", (x, w))}
some = {i for i in range(3)}
loss = sum(v for v in named.values()) + len(some)
""",
    "generator": """\
def each(values):
    for value in values:
        doubled = value * 2
        yield doubled
total = sum(each((x, w)))
loss = total + sum(one * 1.5 for one in (x, w))
""",
    "async_comprehensions": """\
async def stream():
    for v in (x, w):
        yield v
async def main():
    got = [v * 2 async for v in stream()]
    more = [await one(v) for v in got]
    s = sum(more)
    return s
async def one(v):
    t = v + 1
    await asyncio.sleep(0)
    return t
loss = asyncio.run(main())
""",
    "match": """\
match {"x": x, "rest": (w, 2.0)}:
    case {"x": first, "rest": (second, third), **more}:
        u = first * second * third
match [x, w]:
    case [p, *q]:
        v = p * q[0]
match (x, (w, "t")):
    case (a, (b, str() as z)):
        c = a * b
loss = u + v + c
""",
    "walrus": """\
some = [last for v in (x, w) if (last := v * 2) is not None]
if (n := (m := x * w)) is not None:
    loss = n + last + some[0] + m
""",
    "exception_groups": """\
try:
    raise ExceptionGroup("g", [ValueError("a"), KeyError("b")])
except* ValueError as eg:
    u = x * len(eg.exceptions)
except* KeyError:
    v = w * 2
loss = u * v
""",
    "several_managers": """\
class Held:
    def __init__(self, v): self.v = v
    def __enter__(self): return self.v
    def __exit__(self, *e): return False
with Held(x) as a, Held((w, x)) as (b, c):
    u = a * b + c
with (Held(u) as v):
    loss = v * 2
""",
    "starred_targets": """\
first, *others = x * 2, w * 3, x * 4
*some, end = (first, *others)
(p, [q, *r]), s = (x, [w, 1]), end
loss = first + others[0] + end + p * q
""",
    "slices": """\
out = torch.zeros(4)
out[0:2] = x * 2
out[2:] += w
held = [0, 1, 2, 3]
held[1:3] = [x, w]
part = out[1:3]
del held[0:1]
loss = out.sum() + held[0] * held[1] + part.sum()
""",
    "deletions": """\
u = x * 2
v = u + 1
del u
u = v * w
d = {"a": u}
del d["a"]
loss = u
""",
    "class_body": """\
class Box:
    scale = x * 2
    sizes = [k * 1.0 for k in (x, w)]
    total = scale + sizes[0]
    def get(self):
        r = self.total * 2
        return r
loss = Box().get() + w
""",
    "swaps_and_chains": """\
a, b = x * 2, w * 3
a, b = b, a
b = c = a + b
a = b; c = a; b = c * 2
loss = a + b + c
""",
    "loops": """\
total = 0
for i, (p, q) in enumerate([(x, w), (w, x)]):
    total = total + p * q * (i + 1)
    if i > 5: break
else:
    final = total
while total < 1: total = total + 1
loss = final
""",
    "closures": """\
c = x * 2
def inner(d):
    e = c * d
    return e
fs = [lambda v, s=s: v * s for s in (1.0, 2.0)]
gs = [(lambda: t * 2) for t in (x, w)]
loss = inner(w) + fs[1](c) + gs[0]()
""",
    "names_that_are_read": """\
u = x; v = w
p = u * v
q = [x * t for t in (w,)][0]
x2, w2 = x, w
loss = p + q + x2 * w2
""",
    "comprehension_of_a_closure_variable": """\
def outer(k):
    def inner():
        doubled = [k * 2 for k in (x, w)]
        return doubled[0] * k
    return inner()
loss = outer(x * 3) + w
""",
    "class_body_with_a_name_that_is_used": """\
k = x * 3
class Held:
    k = w * 2
    some = [k * 2 for k in (x, w)]
    last = k + some[0]
loss = Held.last * k
""",
    "patterns": """\
match [x, w, {"k": 3}]:
    case [first, *others]:
        u = first * others[0]
match w:
    case 1 | torch.Tensor() as whole:
        v = whole * 2
    case _:
        v = 0
match v:
    case other:
        loss = u * other
""",
    "statements_over_several_lines": """\
rows = [
    x * 2,
    w,
]; total = (
    rows[0]
    + rows[1]
)
loss = total * (
    rows[0]
)
""",
    "early_return_and_nonlocal": """\
def first(*values, by=2.0, **others):
    count = 0
    def more(value):
        nonlocal count
        count += 1
        return value * by
    for value in values:
        if more(value) is not None:
            return more(value) * count
    return None
loss = first(x, w, by=3.0) + first(w)
""",
    "many_names": """\
c, d = x * 2, w * 3
e = c
f, g, h = d, e, c
i = j = f
k, (l, m) = g, (h, i)
k, l = l * 2, k
loss = c + d + e * f + g * h + i + j + k + l + m
""",
    "lambdas": """\
f = lambda a, b: (c := a * b) + c
loss = f(x, w) + max([x, w], key=lambda t: t.item())
""",
    "inplace": """\
u = x * 2
r = u * 1.0
u += w
r *= 2
vs = [r.mul_(k) for k in (1.0, 2.0)]
loss = u + r
""",
    "imports": """\
import math
from math import pi as number, e
import os.path as path
u = x * number
loss = u * w
""",
    "errors": """\
try:
    try:
        a = x * 2
        b = a + 1
        raise KeyError(a)
    except KeyError as error:
        got = error.args[0] * 2
    finally:
        last = w * 1
except ValueError:
    pass
loss = got + last
""",
    "annotations": """\
a: "float" = x * 2
b: int
c: float = a * w
loss = c
""",
    "decorator": """\
import functools
def twice(f):
    @functools.wraps(f)
    def inside(v):
        r = f(f(v))
        return r
    return inside
@twice
def step(v):
    s = v * 2
    return s
loss = step(x) + w
""",
    "attributes_and_items": """\
box = types.SimpleNamespace(u=x * 2, parts=[1.0, 2.0])
box.u = box.u * w
box.parts[0], box.v = x * 3, w * 2
box.parts[-1] += x
loss = box.u + box.v + box.parts[0] + box.parts[1]
""",
    "cut": """\
a = x * 2
b = a.detach() * w
c = torch.tensor([v.item() for v in (a, x)])
loss = b + c.sum() * w + x
""",
    "loop_over_functions": """\
hs = []
h = x
for layer in [torch.tanh, torch.sin]:
    h = layer(h); hs.append(h)
s = {n: t for n, t in enumerate(hs)}
loss = s[0] + s[1] * w
""",
    "keywords": """\
def f(a, *b, c=1, **d):
    r = a * b[0] * c * d["e"]
    return r
loss = f(x, w, c=2, e=3) + f(*(x, w), **{"c": x, "e": w}) + torch.sum(input=x, dim=0)
""",
    "nested_generator_expressions": """\
t = tuple(v * 2 for v in (x, w))
nested = sum(sum(a * b for a in (x, w)) for b in (x, w))
it = (y for y in t)
n1 = next(it)
loss = n1 + next(it) + nested
""",
    "yield_from": """\
def a():
    v = x * 2
    got = yield v
    return got * 2
def b():
    r = yield from a()
    s = r + 1
    yield s
g = b()
one = next(g)
two = g.send(one * w)
loss = two
""",
    "conditions": """\
u = x if w > 0 else w
v = (x and w) or x
z = not u
s = f"{u} {v!r} {z:>5}"
loss = u * v if len(s) else u
""",
    "nested_comprehensions_of_a_name_that_is_used": """\
i = w * 3
rows = [[i * j for i in (x, w)] for j in (1.0, 2.0)]
again = [i for i in [i * 2]]
loss = rows[0][0] + rows[1][1] + again[0] + i
""",
    "super_call": """\
class A:
    def f(self, v):
        r = v * 2
        return r
class B(A):
    def f(self, v):
        q = super().f(v) * w
        return q
loss = B().f(x)
""",
    "global_names": """\
def setter():
    global GG
    GG = x * 2
    GG += w
    return GG
loss = setter() + GG
""",
}

FROM_3_12 = {
    "type_parameters": """\
def f[T](v: T) -> T:
    r = v * 2
    return r
class Box[T]:
    def __init__(self, v: T): self.v = v
    def get(self) -> T:
        g = self.v * 3
        return g
type Alias[T] = list[T]
def bound[T: (int, float)](v: T, *more: T) -> T:
    s = [v * k for k in more]
    return s[0]
loss = f(x) + Box(w).get() + bound(x, w)
""",
}

SEEN_OTHERWISE = {"async_comprehensions": ("/main:v",), "slices": ("held[1:3].0", "held[1:3].1")}
if CRASHES:  # a variable that cannot be read there while the comprehension runs
    SEEN_OTHERWISE["comprehension_of_a_closure_variable"] = ("/outer/inner:k",)
"""Names that a block and the function form see differently, on every Python: a block also hears of what ``async for``
binds in a comprehension, and does not see what is stored into a slice of a list."""
