"""Programs of statements of every kind, each from ``x`` to ``loss``: what the language allows, and blocks must bear."""

import sys

PROGRAMS = {
    "nested comprehensions": """
rows = [[x * (i + j) for j in range(2)] for i in range(3)]
flat = [v for row in rows for v in row if v is not None]
d = {k: v for k, v in enumerate(flat)}
s = {i for i in range(3)}
total = sum(v.sum() for v in flat)
g = list(v * 2 for v in (w + 1 for w in flat))
loss = total + sum(t.sum() for t in g)
""",
    "walrus in comprehensions": """
vals = [y := x * i for i in range(1, 4)]
last = y
big = [t for i in range(3) if (t := (x + i).sum()) is not None]
if (n := len(big)) > 2 and (m := big[-1]) is not None:
    z = m * n
loss = last.sum() + z
""",
    "comprehensions that reuse a name": """
i = x * 2
q = [i for i in range(3)]
r = [i * 2 for i in [x, x + 1]]
k = {i: i for i in range(2)}
after = i + 1
loss = after.sum() + sum(a.sum() for a in r)
""",
    "match": """
data = {"kind": "pair", "items": [x, x * 2], "extra": 3}
match data:
    case {"kind": "single", "item": it}:
        outp = it
    case {"kind": "pair", "items": [first, *others], **rest} if len(others) == 1:
        outp = first + others[0]
point = (x.sum(), 2)
match point:
    case (a, 0):
        pz = a
    case (a, b) as whole:
        pz = a * b
match 5:
    case 1 | 2:
        c = 0
    case int(num):
        c = num
loss = outp.sum() + pz * c
""",
    "starred and slice targets": """
a, *b, c = x * 2, x + 1, x + 2, x * 3
[d, (e, f)] = [b[0], (b[1], c)]
*init, last = [x, d, e]
lst = [0] * 5
lst[1:3] = [x * 5, x * 6]
lst[0], lst[-1] = x, x * 7
tup = (*init, *lst[1:3])
dd = {**{"p": x}, "q": last}
loss = a.sum() + sum(t.sum() for t in tup) + f.sum() + lst[-1].sum() + dd["q"].sum() + dd["p"].sum()
""",
    "del": """
h = x * 2
k = h + 1
del h
lst = [k, k * 2, k * 3]
del lst[0], k
dd = {"a": lst[0]}
y = dd["a"]
del dd["a"]
for i in range(2):
    tmp = y * i
    y = y + tmp
    del tmp
loss = y.sum() + lst[1].sum()
""",
    "with of several managers": """
import contextlib
@contextlib.contextmanager
def scaled(v, by):
    w = v * by
    yield w
    w = None
with scaled(x, 2) as p, scaled(x, 3) as q:
    r = p + q
with (
    scaled(r, 2) as (u),
    contextlib.nullcontext((x, r)) as (v1, v2),
    contextlib.suppress(ZeroDivisionError),
):
    s = u + v1 * v2
    1 / 0
    s = None
loss = s.sum()
""",
    "class bodies": """
class Box:
    scale = 3
    held = x * scale
    parts = [held_i * 2 for held_i in [x, x + 1]]
    def __init__(self, v):
        self.v = v * 2
        self.w: object = self.v + 1
    @property
    def both(self):
        t = self.v + self.w
        return t
    def __matmul__(self, other):
        r = self.v * other
        return r
b = Box(x)
z = b @ x
Box.held2 = b.both * 2
loss = z.sum() + Box.held.sum() + Box.held2.sum() + sum(p.sum() for p in Box.parts)
""",
    "generators": """
def gen(v):
    for i in range(3):
        t = v * i
        got = yield t
        if got is not None:
            v = v + got
    return v
def outer(v):
    r = yield from gen(v)
    yield r
g = outer(x)
a = next(g)
b = g.send(x)
c = next(g)
d = next(g)
loss = a.sum() + b.sum() + c.sum() + d.sum()
""",
    "except*": """
try:
    h = x * 2
    raise ValueError("a")
except (KeyError, ValueError) as e:
    msg = str(e)
    k = h + 1
else:
    k = None
finally:
    fin = k * 2
try:
    raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
except* ValueError as eg:
    ve = x * len(eg.exceptions)
except* TypeError as eg:
    te = ve + 1
loss = fin.sum() + te.sum()
""",
    "async comprehensions": """
import asyncio
async def agen(v):
    for i in range(3):
        await asyncio.sleep(0)
        t = v * i
        yield t
class CM:
    async def __aenter__(self):
        return 3
    async def __aexit__(self, *a):
        return False
async def main(v):
    got = [t async for t in agen(v) if t is not None]
    nested = [[u + t async for t in agen(v)] for u in got]
    dct = {i: (await one(t)) for i, t in enumerate(got)}
    async with CM() as by, CM() as by2:
        w = v * by * by2
    async for t in agen(w):
        last = t
    more = await asyncio.gather(one(v), one(w))
    every = sum(t.sum() for t in got) + sum(t.sum() for r in nested for t in r)
    return every + last.sum() + sum(m.sum() for m in more) + sum(t.sum() for t in dct.values())
async def one(v):
    o = v * 2
    await asyncio.sleep(0)
    o = o + 1
    return o
loss = asyncio.run(main(x))
""",
    "closures": """
count = 0
def outer(v):
    acc = v
    def inner(by):
        nonlocal acc
        acc = acc * by
        return acc
    inner(2)
    [inner(j) for j in (1, 2)]
    return acc, (lambda q: q + acc)
a, fn = outer(x)
b = fn(x)
c = (lambda p, /, *ar, k=2, **kw: p * k + ar[0])(b, a, k=3)
loss = c.sum()
""",
    "loops": """
y = x
for i, (u, v) in enumerate(zip([x, x * 2], (x + 1, x + 2))):
    if i == 1:
        y = y * u
        continue
    y = y + v
else:
    y = y * 2
n = 0
while True:
    n += 1
    y += x
    if n > 2:
        break
lst_item = [None]
for lst_item[0] in [x]:
    pass
z = y if n > 100 else y * 2 if n else None
w = x and y.sum() if False else (n and z)
ch = 0 < n < 10
loss = w.sum()
""",
    "f-strings and annotations": """
h = x * 2
t = f"{(k := h + 1).shape}{h!r:>{10}}"
m = f"{[p * 2 for p in [h]][0].sum().item():.3f}"
ann: object = k * 2
un: int
assert (chk := ann.sum()) is not None, f"{x}"
loss = chk
""",
    "augmented targets": """
class O: pass
o = O()
o.v = x * 1
o.v = o.v + x
o.l = [x * 1, x * 1]
o.l[0] = o.l[0] * 2
o.l[1] *= 3
o.d = {"k": x}
o.d["k"] = o.d["k"] @ x
y = x * 1
y += 1
y *= x
y = y * 1
y[0] = 5.0
y[1:] = y[1:].detach() * 2
q, o.z = y, x * 4
o.l[0], w = w0 = (x, x * 2)
loss = o.v.sum() + o.l[0].sum() + o.l[1].sum() + o.d["k"] + q.sum() + o.z.sum() + w.sum() + w0[0].sum()
""",
    "decorators": """
import functools
def twice(f):
    @functools.wraps(f)
    def wrapper(*a, **k):
        r = f(*a, **k)
        return r * 2
    return wrapper
@twice
def sq(v):
    s = v * v
    return s
@functools.lru_cache(None)
def cached(n):
    return n + 1
a = sq(x)
b = functools.reduce(lambda p, q: p + q, map(sq, [x, a]))
c = sorted([3, cached(1)])[0]
loss = (a + b).sum() * c
""",
    "dataclasses in match": """
import dataclasses, enum, typing
@dataclasses.dataclass
class D:
    v: object
    w: object = dataclasses.field(default=None)
    def __post_init__(self):
        self.w = self.v * 2
class C(enum.Enum):
    A = 1
    B = 2
class N(typing.NamedTuple):
    a: object
    b: int = 2
d = D(x)
d2 = dataclasses.replace(d, v=x + 1)
n = N(d.w)
match d2:
    case D(v=vv, w=ww):
        r = vv + ww
match n:
    case N(aa, bb) if bb == C.B.value:
        r = r + aa
loss = r.sum()
""",
    "super in comprehensions": """
class Base:
    def go(self, v):
        b = v * 2
        return b
class Sub(Base):
    def go(self, v):
        s = super().go(v)
        t = [super(Sub, self).go(u) for u in (v, s)]
        return s + t[0] + t[1] + (__class__ is Sub)
loss = Sub().go(x).sum()
""",
    "globals": """
import builtins
globals()['cnt'] = 1
def bump(v):
    global cnt, made
    cnt += 1
    made = v * cnt
    return made
a = bump(x)
b = [bump(v) for v in (x, a)][-1]
loss = (a + b).sum()
""",
    "return in try": """
def f(v):
    for i in range(3):
        try:
            h = v * i
            if i == 1:
                return h
        finally:
            v = v + 1
    return None
def g(v):
    try:
        return v * 2
    finally:
        v = None
a = f(x)
b = g(x)
loss = a.sum() + b.sum()
""",
    "captured variables of comprehensions": """
pairs = [(u, v) for u in [x, x * 2] for v in [u + 1, u * 3]]
dct = {f"{i}{j}": u * v for i, (u, v) in enumerate(pairs) for j in range(2)}
st = {id(u) > 0 for u, _ in pairs}
ge = (u for u, _ in pairs)
nxt = next(ge)
cl = [(lambda: u)() for u, *_ in pairs]
lam = [lambda v, u=u: u * v for u in [x, nxt]]
res = [fn(x) for fn in lam]
cond = [u if i % 2 else None for i, (u, v) in enumerate(pairs)]
nest = [[[c * d for d in (1, 2)] for c in b] for b in [[x], [x, x]]]
loss = sum(v.sum() for v in dct.values()) + nxt.sum() + sum(c.sum() for c in cl)
loss = loss + sum(r.sum() for r in res) + nest[1][1][1].sum()
""",
    "targets that use each other": """
y = ((x * 2).sum(), [x + 1, (x * 3, {"k": x - 1})])
(a, [b, (c, e)]) = y
sl = [x, b, c]
sl[::2] = [a, a * 2]
first, second, *_ = sl
x2, y2 = y2, x2 = b, c
i = 0
arr = [None] * 3
i, arr[i] = 1, x * 9
arr[i], arr[i + 1] = x * 4, second
loss = first + second.sum() + arr[1].sum() + arr[2].sum() + x2.sum() + e["k"].sum()
""",
    "comprehensions over captured variables": """
def use(k):
    before = k * 2
    fns = [lambda: k]
    inner = [k for k in [before, before + 1]]
    try:
        bad = [k / q for k in (1,) for q in (1, 0)]
    except ZeroDivisionError:
        bad = None
    dd = {k: fns[0]() * k for k in (1, 2)}
    nested = [[k + j for j in (1, 2)] for k in inner]
    return fns[0]() + inner[1] + dd[2] + nested[1][1]
u = x * 1
gs = [(lambda: u)() for u in [x]]
hs = [u + 1 for u in [x, x * 2]]
class Q:
    v = 3
    f = [(lambda: v)() for v in (1, 2)]
    g = [v * 2 for v in (x, x)]
    t = x * 2
loss = use(x).sum() + gs[0].sum() + hs[1].sum() + u.sum() + Q.g[1].sum() + Q.t.sum()
""",
    "generator expressions and delegation": """
def chunks(v):
    parts = (p for p in (v * 1, v * 2) if p is not None)
    total = 0
    for p in parts:
        total = total + p
        yield total
pulled = [*chunks(x)]
def deleg():
    try:
        r = yield from chunks(x)
    finally:
        done.append(r if "r" in dir() else None)
done = []
a, *rest = deleg()
it = iter(pulled)
first, (second, *_) = next(it), pulled[::-1]
gen_sum = sum((t * 2 for t in pulled), start=x)
zz = max(pulled, key=lambda t: float(t.detach().sum()))
loss = a.sum() + rest[0].sum() + first.sum() + second.sum() + gen_sum.sum() + zz.sum()
""",
    "except* in a function": """
def risky(v):
    h = v * 2
    try:
        try:
            raise ExceptionGroup("g", [ValueError(h), OSError("x")])
        except* ValueError as e:
            k = h + len(e.exceptions)
        except* (OSError, TypeError):
            m = k * 2
        else:
            m = None
        finally:
            n = m + 1
    except BaseExceptionGroup:
        n = None
    try:
        return n * 2
    except* ValueError:
        pass
    finally:
        del h
try:
    r = risky(x)
    with open("/nonexistent") as fh, open("/other") as fh2:
        r = None
except OSError as err:
    code = err.errno
else:
    r = None
loss = (r * code).sum()
""",
    "with of several managers and targets of every kind": """
import contextlib
log = []
class M:
    def __init__(self, v): self.v = v
    def __enter__(self):
        w = self.v * 2
        return w, {"k": self.v}
    def __exit__(self, *a):
        log.append(a[0])
        return True
obj = type("O", (), {})()
with M(x) as (obj.a, obj.d), M(obj.a) as [b, c]:
    e = b + c["k"] + obj.d["k"]
    raise KeyError
with contextlib.ExitStack() as st:
    f, g = st.enter_context(M(e))
    lst = [0, 0]
    with M(f) as lst[0]:
        h = lst[0][0] * 2
loss = h.sum() + e.sum()
""",
}

if sys.version_info >= (3, 12):
    PROGRAMS |= {
        "type parameters": """
type Pair[T] = tuple[T, T]
def ident[T: (int, object)](v: T) -> T:
    r = v * 2
    return r
class Bx[T, *Ts, **Ps]:
    k: T
    def __init__(self, v: T):
        self.v = v * 3
    def get[U](self, u: U) -> Pair[U]:
        w = self.v + u
        return w, u
bx = Bx(x)
p, q = bx.get(ident(x))
al = Pair.__value__
nested = f"{f"{p.shape}"}"
gl = [ident(t) for t in (p, q)]
loss = p.sum() + q.sum() + gl[0].sum()
""",
        "type parameters in a function": """
def mk(v):
    class Inner[T]:
        held = v * 2
        items = [v * i for i in range(2)]
        def m[S](self, s: S) -> S:
            return s + self.held
    def gen[T](a: T):
        yield from (a * i for i in range(3))
    return Inner().m(v), list(gen(v)), Inner.items
a, b, c = mk(x)
loss = a.sum() + sum(t.sum() for t in b) + sum(t.sum() for t in c)
""",
        "comprehensions in a class body": """
class K:
    f = 2
    xs = [x * i for i in range(3)]
    ys = [[a + b for a in [x]] for b in [x, x]]
    z = {i: (lambda: i)() for i in range(2)}
    w = [__class__ for __class__ in [1]]
def fn(v):
    v2 = v
    l = [v2 := v2 * 2 for _ in range(2)]
    m = [lambda: (v2, j) for j in range(2)]
    try:
        n = [1 / k for k in (1, 0)]
    except ZeroDivisionError:
        k = v2
    return l[-1] + m[0]()[0] + k
loss = fn(x).sum() + sum(t.sum() for t in K.xs) + K.ys[1][0].sum()
""",
        "bounds of type parameters": """
type Vec = list[int]
type Other[K: (int, str)] = dict[K, Vec]
def bounded[T: (int, float), U: list](v: T, w: U) -> T:
    bound = bounded.__type_params__[1].__bound__
    return v * len(bound())  + len(bounded.__type_params__[0].__constraints__)
o = Other.__value__
y = bounded(x, [1])
loss = (y * x).sum()
""",
    }
