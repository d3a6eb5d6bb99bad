"""More programs of statements, as people write them: comprehensions, patterns, scopes and ways out of ``try``."""

import sys

VARIED = {
    "a comprehension of comprehensions with conditions": """
grid = {(i, j): [x * k for k in range(i + j) if k] for i in range(2) for j in range(3) if (i + j) % 2}
found = [sum(t.sum() for t in cell) for key, cell in grid.items() if cell]
loss = sum(found) + x.sum()
""",
    "an asynchronous comprehension": """
import asyncio
async def steps(v, n):
    for i in range(n):
        await asyncio.sleep(0)
        yield v * (i + 1)
async def gather(v):
    found = [t + 1 async for t in steps(v, 3) if t is not None]
    named = {i: t async for i, t in numbered(steps(v, 2))}
    total = sum([t.sum() async for t in steps(v, 2)])
    return found, named, total
async def numbered(parts):
    i = 0
    async for t in parts:
        yield i, t
        i += 1
found, named, total = asyncio.run(gather(x))
found_sum = found[0].sum() + found[-1].sum()
loss = found_sum + named[1].sum() + total
""",
    "asynchronous managers": """
import asyncio, contextlib
@contextlib.asynccontextmanager
async def held(v, by):
    made = v * by
    try:
        yield made
    finally:
        await asyncio.sleep(0)
async def main_part(v):
    async with held(v, 2) as a, held(a, 3) as b:
        both = a * b
    outs = await asyncio.gather(*(half(both, i) for i in range(2)))
    return outs
async def half(v, i):
    h = v / (i + 2)
    return h
outs = asyncio.run(main_part(x))
left, right = outs
loss = left.sum() + (right * 2).sum()
""",
    "a walrus in the condition of a comprehension": """
taken = [z for i in range(4) if (z := x * i).sum() > 5]
seen = z
pairs = {k: w for k in ("a", "b") if (w := seen * len(k)) is not None}
loss = taken[0].sum() + w.sum() + pairs["a"].sum()
""",
    "a walrus in a call, a slice and a while": """
n = 0
y = x
while (n := n + 1) < 4 and (y := y * 1.5).sum() < 30:
    pass
part = (both := torch.stack([x, y]))[(at := 1):]
z = torch.add((p := x * 2), (q := p + 1))
loss = part.sum() + both.sum() * at + z.sum() + q.sum()
""",
    "match on classes and guards": """
class Point:
    __match_args__ = ("v", "scale")
    def __init__(self, v, scale):
        self.v, self.scale = v, scale
def at(point):
    match point:
        case Point(v, scale=0):
            r = v * 0
        case Point(v, s) if s > 1:
            r = v * s
        case Point() as other:
            r = other.v
        case _:
            r = None
    return r
a = at(Point(x, 3))
b = at(Point(x * 2, 1))
match [a, b, x]:
    case [first, *_, last] if first is not last:
        c = first * last
    case _:
        c = x
loss = a.sum() + b.sum() + c.sum()
""",
    "match on nested mappings": """
config = {"layers": [{"w": x, "act": "relu"}, {"w": x * 2, "act": None}], "bias": {"b": x + 1}}
h = x
for layer in config["layers"]:
    match layer:
        case {"w": w, "act": "relu" | "gelu" as act}:
            h = (h * w).relu()
        case {"w": w, "act": None, **more}:
            h = h * w
match config:
    case {"bias": {"b": torch.Tensor() as b}, **rest}:
        h = h + b
loss = h.sum()
""",
    "except* of two groups": """
made = []
try:
    try:
        u = x * 2
        raise ExceptionGroup("both", [ValueError("v"), KeyError("k")])
    except* ValueError as group:
        v = u + len(group.exceptions)
        made.append(v)
    except* KeyError as group:
        w = u * 3
        made.append(w)
    finally:
        z = u - 1
except BaseException:
    z = None
loss = sum(m.sum() for m in made) + z.sum()
""",
    "a try that returns from every part": """
def first(v):
    try:
        a = v * 2
        return a
    finally:
        b = v + 1
        log.append(b)
def second(v):
    for i in range(3):
        try:
            if i == 1:
                continue
            c = v * i
            if i == 2:
                return c
        finally:
            log.append(v - i)
def third(v):
    try:
        raise KeyError
    except KeyError:
        d = v * 5
        return d
    else:
        return v
    finally:
        log.append(d)
log = []
a = first(x)
c = second(a)
d = third(c)
loss = a.sum() + c.sum() + d.sum() + sum(t.sum() for t in log)
""",
    "a finally that overrides what is returned": """
def over(v):
    while True:
        try:
            a = v * 2
            raise RuntimeError
        except RuntimeError:
            b = a + 1
            break
        finally:
            k = a * 3
    return b * k
y = over(x)
loss = y.sum()
""",
    "nonlocal through three functions": """
def outer(v):
    total, count = v * 0, 0
    def add(t):
        nonlocal total, count
        total = total + t
        count += 1
        def again():
            nonlocal total
            total = total * 2
        again()
        return total
    first = add(v)
    second = add(v * v)
    return total, first * count, second
t, f, s = outer(x)
loss = t.sum() + f.sum() + s.sum()
""",
    "closures made in a loop": """
makers = []
for by in range(1, 4):
    scaled = x * by
    makers.append(lambda v, by=by, scaled=scaled: v * by + scaled)
late = [lambda v: v * by for by in range(3)]
parts = [make(x) for make in makers]
end = late[0](x)
loss = sum(p.sum() for p in parts) + end.sum()
""",
    "lambdas with defaults and conditions": """
pick = lambda v, *rest, k=x * 2, **more: v + k if rest else v - k
a = pick(x)
b = pick(x, 1, k=x, other=a)
c = (lambda: (lambda t: t * 3)(a))()
d = max([x, a, b], key=lambda t: t.sum().item())
loss = a.sum() + b.sum() + c.sum() + d.sum()
""",
    "decorators with arguments": """
import functools
def scaled(by, *, shift=0):
    def decorate(f):
        @functools.wraps(f)
        def inner(*args, **kwargs):
            out = f(*args, **kwargs)
            moved = out * by + shift
            return moved
        inner.by = by
        return inner
    return decorate
@scaled(2)
@scaled(3, shift=1)
def f(v, *, w=None):
    r = v * v if w is None else v * w
    return r
y = f(x)
z = f(x, w=y)
loss = y.sum() + z.sum() * f.by
""",
    "decorated classes and methods": """
import dataclasses
@dataclasses.dataclass
class Layer:
    w: torch.Tensor
    scale: float = 2.0
    parts: list = dataclasses.field(default_factory=list)
    def __post_init__(self):
        self.doubled = self.w * self.scale
    @property
    def cached(self):
        c = self.doubled + 1
        return c
    @staticmethod
    def plain(v):
        return v * 3
    def __call__(self, v):
        self.parts.append(v)
        return v * self.cached
layer = Layer(x)
other = Layer(x * 2, scale=0.5)
h = layer(other(x))
k = Layer.plain(h)
loss = h.sum() + k.sum() + layer.parts[0].sum()
""",
    "f-strings that compute": """
name = f"{(y := x * 2).sum():.1f} {[round(v, 1) for v in y.tolist()]!r} {'a' + 'b'}"
width = 8
line = f"{y.sum().item():>{width}.2f}|{f'{width}'}"
z = y + len(line)
text = f'{z.shape[0]=}'
loss = z.sum() + len(name)
""",
    "slices of every kind": """
m = torch.stack([x, x * 2, x * 3])
row, column, step = m[1], m[:, 1], m[::2, 1:]
m2 = m.clone()
m2[0] = x * 5
m2[1:, :2] += 1
m2[..., -1] *= 2
rows = [x, x + 1, x + 2, x + 3]
rows[1:3] = [x * 7]
rows[::2] = rows[1], rows[0]
head, *rows[1:] = rows
loss = row.sum() + column.sum() + step.sum() + m2.sum() + sum(r.sum() for r in rows) + head.sum()
""",
    "starred calls and unpacking in a loop": """
def joined(a, /, b, *rest, c=1, **named):
    out = a + b * c
    for r in rest:
        out = out + r
    for k, v in named.items():
        out = out * v
    return out
table = [(x, (x * 2, [x * 3, x * 4])), (x + 1, (x + 2, [x, x]))]
acc = 0
for a, (b, [c, *d]) in table:
    acc = acc + joined(a, *(b, c), *d, **{"c": 2}, **dict(k=a))
first, = [acc]
(second,) = (first * 2,)
loss = first.sum() + second.sum()
""",
    "del of attributes, items and names": """
class Bag: pass
bag = Bag()
bag.v, bag.w = x * 2, x * 3
bag.t = bag.v + bag.w
del bag.v, bag.w
store = {"a": bag.t, "b": x}
held = store["a"]
del store["a"], bag
items = [x * i for i in range(6)]
del items[::2], (items[0])
q = held * 2
del held
loss = q.sum() + sum(t.sum() for t in items) + store["b"].sum()
""",
    "class bodies with loops and conditions": """
class Table:
    rows = []
    for i in range(3):
        if i == 1:
            continue
        made = x * i
        rows.append(made)
    else:
        last = made + 1
    try:
        total = rows[0] + rows[1]
    except IndexError:
        total = None
    class Inner:
        deep = x * 4
        def of(self, v):
            return v * self.deep
    def __init_subclass__(cls, by=1, **kw):
        cls.scaled = cls.total * by
class Wide(Table, by=3):
    own = Table.last * 2
i = Wide.Inner()
y = i.of(Wide.scaled)
loss = y.sum() + Wide.own.sum()
""",
    "generators that are closed, thrown into and delegated to": """
def parts(v):
    try:
        while True:
            try:
                v = v * 2
                yield v
            except ValueError:
                v = v + 1
    finally:
        ended.append(v)
def some(v, n):
    g = parts(v)
    for t, _ in zip(g, range(n)):
        yield t
    g.close()
ended = []
a = list(some(x, 2))
g = parts(x)
b = next(g)
c = g.throw(ValueError)
g.close()
loss = sum(t.sum() for t in a) + b.sum() + c.sum() + sum(e.sum() for e in ended)
""",
    "generator expressions passed on": """
import itertools
gen = (x * i for i in itertools.count(1))
first, second = next(gen), next(gen)
rest = list(itertools.islice(gen, 2))
total = sum((t * u).sum() for t, u in zip(rest, (x + 1 for _ in range(2))))
any_big = any((t.sum() > 100) for t in rest)
running = [*itertools.accumulate(rest, lambda p, q: p + q)]
loss = first.sum() + second.sum() + total + running[-1].sum()
""",
    "managers that suppress, and nest": """
import contextlib
class Kept:
    def __init__(self, v):
        self.v = v
    def __enter__(self):
        self.made = self.v * 2
        return self
    def __exit__(self, kind, error, trace):
        self.after = self.made + 1
        return kind is ValueError
with Kept(x) as one, Kept(one.made) as two, contextlib.ExitStack() as stack:
    three = stack.enter_context(Kept(two.made))
    inside = three.made * 3
    raise ValueError("suppressed")
with contextlib.suppress(KeyError), torch.enable_grad():
    y = inside + one.after
    {}["no"]
loss = y.sum() + two.after.sum() + three.after.sum()
""",
    "no_grad as a manager and as a decorator": """
@torch.no_grad()
def frozen(v):
    f = v * 2
    return f
with torch.no_grad(), torch.enable_grad():
    a = x * 3
with torch.no_grad() as nothing:
    b = x * 4
c = frozen(x)
d = a * b + c
loss = d.sum()
""",
    "loops with else, break and several targets": """
acc = x
for i, (p, q) in enumerate([(x, 1), (x * 2, 2), (x * 3, 3)]):
    if q > 2:
        break
    for j in range(q):
        if j:
            continue
        acc = acc + p * q
    else:
        acc = acc * 1.5
else:
    acc = None
k = 3
while k:
    k -= 1
    if k == 5:
        break
else:
    end = acc + k
loss = end.sum() + p.sum()
""",
    "augmented targets of every kind": """
class Box: pass
box = Box()
box.v = x * 1
box.v = box.v * 2
box.v += x
d = {"a": x + 0}
d["a"] = d["a"] * 3
d["a"] -= 1
lst = [x, x]
lst[0] = lst[0] @ lst[1]
lst += [x * 2]
y = x.clone()
y *= 2
y **= 2
y[0] /= 4
n = 7
n //= 2
n <<= 1
loss = box.v.sum() + d["a"].sum() + lst[0] + lst[2].sum() + y.sum() * n
""",
    "chained comparisons and boolean operators": """
a = x if 0 < x[0].item() <= 1 < x.max().item() else None
b = None or x * 2
c = (x * 3 if b is None else b) if a is None or a[0] > 0 else a
d = not (a is None) and b * 2
e = [t for t in (a, b, c, d) if t is not None and t is not a]
loss = sum(t.sum() for t in e)
""",
    "annotations without and with values": """
y: torch.Tensor = x * 2
later: "torch.Tensor"
later = y + 1
def f(v: "torch.Tensor", k: int = 2, *a: int, **kw: float) -> "torch.Tensor":
    out: torch.Tensor = v * k
    n: int
    return out
z: object = f(later)
(w): torch.Tensor = z * 2
loss = z.sum() + w.sum()
""",
    "globals and imports inside functions": """
def f(v):
    import math
    from math import sqrt as root
    import torch.nn.functional as F
    s = F.relu(v) * root(math.pi)
    return s
y = f(x)
from functools import reduce, partial
z = reduce(lambda p, q: p * q, [x, y, x + 1])
half = partial(torch.mul, other=0.5)
h = half(z)
loss = h.sum()
""",
    "recursion and functions as values": """
def tree(v, depth):
    if depth == 0:
        leaf = v * 2
        return leaf
    left, right = tree(v, depth - 1), tree(v + 1, depth - 1)
    both = left * right
    return both
table = {"tree": tree, "plus": torch.add}
y = table["tree"](x, 2)
z = table["plus"](y, x)
composed = (lambda f, g: lambda v: f(g(v)))(torch.exp, torch.sin)
w = composed(x)
loss = y.sum() + z.sum() + w.sum()
""",
    "sorting, mapping and zipping tensors": """
vals = sorted([x * 3, x, x * 2], key=lambda t: t.sum().item())
doubled = list(map(lambda t: t * 2, vals))
pairs = dict(zip("abc", doubled, strict=True))
picked = {k: v for k, v in pairs.items() if k != "b"}
a, c = picked.values()
flat = [*doubled[:1], *reversed(vals)]
loss = a.sum() + c.sum() + torch.cat(flat).sum()
""",
    "named tuples and dataclasses as targets": """
from typing import NamedTuple
class State(NamedTuple):
    h: object
    c: object = None
    def next(self):
        return self._replace(h=self.h * 2)
state = State(x, x + 1)
h, c = state.next()
state = State(*(t * 2 for t in (h, c)))
state = state._replace(c=state.h + state.c)
loss = state.h.sum() + state.c.sum() + h.sum()
""",
    "an iterator class and its protocol": """
class Steps:
    def __init__(self, v, n):
        self.v, self.n, self.i = v, n, 0
    def __iter__(self):
        return self
    def __next__(self):
        if self.i >= self.n:
            raise StopIteration
        self.i += 1
        out = self.v * self.i
        return out
    def __getitem__(self, at):
        return self.v[at]
    def __len__(self):
        return self.n
    def __contains__(self, v):
        return v is self.v
steps = Steps(x, 3)
made = [t for t in steps]
one, two = Steps(x, 2)
last = steps[-1] * len(steps)
loss = sum(m.sum() for m in made) + (one * two).sum() + last + (x in steps)
""",
    "errors raised, caught and named": """
def fails(v):
    y = v * 2
    raise ValueError("no") from KeyError("cause")
log = []
for i in range(3):
    try:
        try:
            z = x * i
            if i:
                fails(z)
        except (KeyError, ValueError) as error:
            log.append(str(error))
            if i == 2:
                raise RuntimeError from error
        else:
            k = z + 1
    except RuntimeError as outer:
        w = z * 3
        cause = type(outer.__cause__).__name__
loss = k.sum() + w.sum() + len(log)
""",
    "in-place writes in comprehensions and calls": """
buf = [torch.zeros(3) for _ in range(2)]
for b, v in zip(buf, (x * 2, x * 3)):
    b += v
nothing = [b.mul_(2) for b in buf]
stacked = torch.stack(buf)
stacked[0].add_(x)
view = stacked[1]
view.mul_(x)
total = stacked.sum() + view.sum()
del view
loss = total
""",
    "a name of a loop and of a comprehension": """
for b in (x * 2, x * 3):
    c = b + 1
    [b * 4 for b in (c,)]
d = [b * 2 for b in (x * 5, x * 7)]
e = b * 3
a = b = c * 2
f = [k + b for k in d]
loss = d[0].sum() + c.sum() + b.sum() + e.sum() + f[1].sum() + a.sum()
""",
    "semicolons and one-line suites": """
a = x * 2; b = a + 1; c = b * a
if c is not None: d = c + 1; e = d * 2
for i in range(2): e = e + i; f = e
while i: i -= 1; g = f * 3
def h(v): w = v * 2; return w
k = h(g); del a
loss = k.sum() + b.sum()
""",
    "expressions over several lines": """
y = (
    x
    * 2
    + torch.exp(
        -x,
    )
)
z = torch.stack([
    y,
    (
        y * 2
    ),
]).sum(
    dim=0,
)
w = y \\
    + z
loss = (
    w * z
).sum()
""",
    "assert, pass, ellipsis and bare expressions": """
assert x is not None, f"{x * 2}"
...
x * 5
def nothing(): ...
nothing()
y = x * 2
y.sum()
"a string"
if y is None: pass
z = y + 1
loss = z.sum()
""",
    "properties, descriptors and operators": """
class Scaled:
    def __set_name__(self, owner, name):
        self.name = "_" + name
    def __get__(self, obj, owner=None):
        return getattr(obj, self.name) * 2
    def __set__(self, obj, value):
        setattr(obj, self.name, value + 1)
class Box:
    v = Scaled()
    def __init__(self, v):
        self.v = v
    def __add__(self, other):
        return Box(self.v + other.v)
    def __iadd__(self, t):
        self.v = self.v * t
        return self
    def __neg__(self):
        return -self.v
a = Box(x)
b = a + Box(x * 2)
b += x
c = -b
loss = c.sum() + a.v.sum()
""",
    "modules written on the spot": """
class Net(torch.nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.w = torch.nn.Parameter(torch.tensor([1.0, 0.5, 2.0]))
    def forward(self, v, *, twice=False):
        h = v * self.w
        return self.forward(h) if twice else h * self.k
net = Net(3)
y = net(x, twice=True)
parts = [m(x) for m in torch.nn.ModuleList([Net(1), Net(2)])]
loss = y.sum() + sum(p.sum() for p in parts)
""",
    "exec and locals of a comprehension": """
env = {"v": x}
exec("u = v * 2", {}, env)
u = env["u"]
keys = sorted(k for k in env)
w = eval("a + 1", {"a": u})
loss = u.sum() + w.sum() + len(keys)
""",
    "conditional imports and deleted loop variables": """
try:
    import no_such_module_anywhere as fast
except ImportError:
    fast = None
scale = 2 if fast is None else 3
for step in range(3):
    y = x * step
del step
z = y * scale
loss = z.sum()
""",
}
"""By name. They run on every Python."""

TYPE_PARAMETERS = {
    "generic functions and classes with bounds": """
def first[T: torch.Tensor, *Ts, **P](v: T, *rest: *Ts) -> T:
    y = v * 2
    def inner[U](u: U) -> U:
        w = y + u
        return w
    return inner(v)
class Box[K, V: (int, str)]:
    scale = x * 3
    def __init__(self, v):
        self.v = v
    def of[W](self, w: W) -> W:
        r = self.v * w * self.scale
        return r
a = first(x, 1)
b = Box[int, str](x).of(a)
loss = a.sum() + b.sum()
""",
    "aliases of types that are generic": """
type Pair[A] = tuple[A, A]
type Named = dict[str, Pair[int]]
def both(v) -> Pair[object]:
    p, q = v * 2, v * 3
    return p, q
p, q = both(x)
known = Named.__value__ is not None and Pair.__type_params__[0].__name__ == "A"
loss = (p * q).sum() + known
""",
    "comprehensions inlined, with a name of the function outside": """
i = x * 2
k = [i * j for j in range(3)]
m = [[i + n for n in range(2)] for i in (x, i)]
c = [lambda: i for _ in range(1)][0]()
d = {i: 1 for i in range(2)}
class Body:
    t = x * 5
    parts = [t2 for t2 in (t,)]
loss = i.sum() + k[2].sum() + m[1][1].sum() + c.sum() + Body.parts[0].sum()
""",
    "f-strings with quotes of the same kind": """
d = {"a": x * 2}
text = f"{d["a"].sum().item():.1f} {"|".join([f"{v:.0f}" for v in d["a"].tolist()])}"
y = d["a"] + len(text)
loss = y.sum()
""",
    "a type parameter that shadows a value": """
T = x * 2
def f[T](v: T) -> T:
    h = v * 3
    return h
y = f(T)
type N[T] = list[T]
loss = y.sum() + T.sum()
""",
}
DEFAULTS = {
    "type parameters with defaults": """
class Box[T = int, U = str]:
    def __init__(self, v):
        self.v = v * 2
def f[U = float](v: U) -> U:
    w = v * 3
    return w
type A[V = str] = list[V]
b = Box(x)
y = f(b.v)
loss = y.sum() + b.v.sum()
""",
}
if sys.version_info >= (3, 12):
    VARIED |= TYPE_PARAMETERS
if sys.version_info >= (3, 13):
    VARIED |= DEFAULTS
