"""Rewriting alone, without a framework: the same results, and every binding reported, on every supported Python.

Each program is run as it is and rewritten; both must return or raise the same, in the same order of side effects.
"""

import ast
import asyncio
import contextlib
import functools
import linecache
import sys

import pytest

import backprobe as bp
from backprobe.source.listener import NO_CALL, CodeListener
from backprobe.source.locate import locate
from backprobe.source.reporting import reporting
from backprobe.source.sites import operation
from backprobe.source.user_code import innermost, package


class Log(CodeListener):
    """A listener that notes the names, in order."""

    def __init__(self, sites, names, follow):
        self.sites, self.names, self.follow = sites, names, follow

    def bind(self, at, value):
        self.names.append(self.sites[at].local)
        return value

    name = wrote = bind

    def storing(self, at, owner, value):
        return self.bind(at, value)

    def writing(self, value):
        self.names.append("writing")

    def written(self, value):
        self.names.append("written")

    def each(self, template, values):
        for value in values:
            self.names.append(template)
            yield value

    def forget(self, *names):
        self.names.append(("forget", *names))

    def call(self, function, may_write=False, at=NO_CALL):
        if (
            self.follow
            and innermost(function) is not None
            and package(innermost(function).__code__.co_filename) is None
        ):
            return reporting(function, opener(self.names, True))
        return function

    def __exit__(self, *error):
        self.exit()

    def exit(self):
        self.names.append("exit")


def opener(names, follow):
    return lambda name, file, sites: lambda: Log(sites, names, follow)


def run(function, *args, follow=False, operations=False):
    """Result and names of the rewritten function, checked against the original's result."""
    names = []
    rewritten = reporting(function, opener(names, follow), operations=operations)
    result = rewritten(*args)
    assert result == function(*args)
    assert names[-1] == "exit"
    return [name for name in names[:-1] if name != "exit"]


def test_simple_targets():
    def f(a, b=2, *rest, c=3, **more):
        d = a + b
        e = g = d * c
        d = e
        h: int = g
        return h

    assert run(f, 1) == ["a", "b", "rest", "c", "more", "d", "e", "g", "d", "h", "return"]


def test_compound_targets_in_pythons_own_order():
    def f():
        order, box, items = [], {}, [0, 0, 0]

        def at(index):
            order.append(index)
            return index

        i, items[at(0)], (box["k"], *items[1:]) = 1, 5, (6, 7, 8)
        i, items[i] = 2, 9
        a, *b = c, d = [1, 2]
        return order, box, items, i, a, b, c, d

    names = run(f)
    assert names[-1] == "return"
    for name in ("i", "items[at(0)]", "box['k']", "items[1:]", "items[i]", "a", "b", "c", "d"):
        assert name in names


def test_augmented_targets_evaluate_their_parts_once():
    def f():
        calls, box, grid = [], type("Box", (), {"n": 1})(), [[1, 2, 3], [4, 5, 6]]

        def note(value):
            calls.append(value)
            return value

        n = 1
        n += note(4)
        box.n *= note(3)
        grid[note(1)][note(0)] -= note(2)
        grid[0][note(0) : 2] += [note(9)]
        return n, box.n, grid, calls

    names = run(f)
    assert names.count("writing") == 6  # each write, and each store of an item
    assert [name for name in names if name in ("n", "box.n", "grid[note(1)][note(0)]")] == [
        "n",
        "n",
        "box.n",
        "grid[note(1)][note(0)]",
    ]


def test_augmented_assignment_of_a_name_that_its_own_operand_rebinds():
    def f(x):
        x += (x := 10)
        return x

    run(f, 1)


def test_loops_with_break_else_and_tuple_targets():
    def f(n):
        out = []
        for i, (j, *k) in enumerate([(1, 2), (3, 4)]):
            if i == n:
                break
            out.append((i, j, k))
        else:
            out.append("else")
        while n:
            n -= 1
            if n > 5:
                continue
        else:
            out.append("done")
        return out

    for n in (0, 1, 7):
        run(f, n)


def test_with_try_match_walrus_delete_and_global():
    def f(x):
        global LEVEL
        LEVEL = x
        try:
            with open(__file__) as (handle):
                first = handle.readline()
            raise KeyError(x)
        except KeyError as error:
            seen = error.args
        finally:
            last = 1
        del first
        match {"a": [1, 2, 3], "b": x}:
            case {"a": [p, *q], **rest} if (total := p + x) > 0:
                return seen, last, p, q, rest, total, LEVEL

    names = run(f, 3)
    assert {"handle", "first", "seen", "last", "p", "q", "rest", "total", "LEVEL"} <= set(names)
    assert ("forget", "first") in names


def test_comprehensions_of_every_kind():
    def f(xs):
        a = [x * y for x in xs for y in xs if x != y]
        b = {x: y for x, y in zip(xs, xs)}
        c = {(lambda: x)() for x in xs}
        d = sum(x for x in xs)
        e = [[y for y in range(x)] for x in xs]
        g = [last := x for x in xs]
        return a, b, c, d, e, g, last

    run(f, [1, 2, 3])


def test_closures_nonlocal_and_defaults_are_the_originals():
    state = [0]
    counter = 0

    def outer(x, add=state):
        nonlocal counter
        counter += 1
        local = x

        def inner():
            nonlocal local
            local += 1
            return local

        add.append(inner())
        return inner() + len(add) * 0

    run(outer, 5)
    assert counter == 2  # once rewritten, once as it is: the very same cell
    assert state == [0, 6, 6]


def test_private_names_super_and_class_cells():
    class Base:
        def value(self):
            return 10

    class Child(Base):
        def __init__(self):
            self.__hidden = 5

        def value(self):
            inner = super().value()
            self.__hidden += 1
            self.__hidden -= 1
            return inner + self.__hidden, __class__.__name__

    assert run(Child().value)[0:2] == ["self", "inner"]


def test_generators_send_throw_and_interleave():
    def f(n):
        try:
            for i in range(n):
                got = yield i * 2
                if got:
                    yield got
        except ValueError:
            yield "caught"
        result = yield from [7, 8]
        return result

    names = []
    made, plain = reporting(f, opener(names, False))(3), f(3)
    for generator in (made, plain):
        assert [next(generator), generator.send("x"), next(generator), generator.throw(ValueError)] == [
            0,
            "x",
            2,
            "caught",
        ]
        assert list(generator) == [7, 8]
    assert names[-1] == "exit"
    abandoned = reporting(f, opener(names, False))(3)
    next(abandoned)
    abandoned.close()


def test_async_functions():
    async def child(x):
        y = x + 1
        return y

    async def f(x):
        a = await child(x)
        async with asyncio.timeout(5) as limit:
            b = [value async for value in ticks(a)]
        async for c in ticks(a):
            pass
        return a, b, c

    async def ticks(n):
        for i in range(n):
            yield i

    names = []
    assert asyncio.run(reporting(f, opener(names, True))(2)) == asyncio.run(f(2)) == (3, [0, 1, 2], 2)
    assert {"a", "y", "limit", "b", "c", "i"} <= set(names)


def test_recursion_and_functions_that_call_each_other_are_followed():
    def fact(n):
        smaller = fact(n - 1) if n else 1
        return smaller * (n or 1)

    assert run(fact, 3, follow=True).count("smaller") == 4
    assert run(module_level, 3, follow=True).count("down") == 4


def module_level(n):
    down = module_level(n - 1) if n else 0
    return down


def test_lambdas_on_one_line_and_inside_each_other():
    pair = (lambda x: x + 1), (lambda x: x * 10)
    assert [reporting(f, opener([], False))(3) for f in pair] == [4, 30]
    nested = lambda x: (lambda y: y * 2)(x) + 1
    assert run(nested, 4) == ["x", "return"]
    assert run(nested, 4, follow=True) == ["x", "y", "return", "return"]
    maker = lambda v: lambda: lambda: v
    assert reporting(maker, opener([], False))(7)()() == 7
    assert reporting(maker(7), opener([], False))()() == 7
    default = lambda x, k=5, *a, m=6, **o: x + k + m
    assert run(default, 1) == ["x", "k", "a", "m", "o", "return"]


def double(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return wrapper


@double
@double
def decorated(x):
    y = x + 1
    return y


def test_decorators_keep_working():
    assert run(decorated, 3) == ["x", "y", "return"]
    assert decorated.__wrapped__.__wrapped__(3) == 4


def test_operations_are_named_by_the_source():
    def f(a, b):
        c = a * b + abs(-a) @ Mat(b) if a > b else [a][0]
        return -c

    names = run(f, 5, 2, operations=True)
    assert [name for name in names if name.endswith("()")] == [
        "gt()",
        "mul()",
        "neg()",
        "abs()",
        "Mat()",
        "matmul()",
        "add()",
    ]


class Mat:
    def __init__(self, value):
        self.value = value

    def __rmatmul__(self, other):
        return other * self.value


def test_functions_inside_a_rewritten_one_are_the_very_same_code():
    def f(x):
        def inner(y):
            return functools.reduce(max, [y, linecache.cache and 0])

        return inner, lambda z: functools.partial(max, z)

    made = reporting(f, opener([], False))(1)
    plain = f(1)
    assert [function.__code__ for function in made] == [function.__code__ for function in plain]
    assert [function.__qualname__ for function in made] == [function.__qualname__ for function in plain]


def test_operation_names():
    import ast

    texts = {
        "x * w": "mul",
        "-x": "neg",
        "F.relu(x)": "relu",
        "f(x)(y)": "call",
        "x[0]": "getitem",
        "x": "",
        "x if y else z": "",
        "x > 1": "gt",
        "x < y < z": "",
        "a @ b": "matmul",
        "not x": "not",
    }
    assert {text: operation(ast.parse(text, mode="eval").body) for text in texts} == texts


def test_tracebacks_name_the_users_lines():
    def f(x):
        y = x
        z = y / 0
        return z

    with pytest.raises(ZeroDivisionError) as caught:
        reporting(f, opener([], False))(1)
    last = caught.traceback[-1]
    assert last.lineno + 1 == f.__code__.co_firstlineno + 2
    assert last.name == "f"


def test_a_rewritten_function_looks_like_the_original():
    def f(x: int, *, k=1) -> int:
        "documented"
        return x

    f.extra = 1
    made = reporting(f, opener([], False))
    assert (made.__name__, made.__qualname__, made.__module__) == (f.__name__, f.__qualname__, f.__module__)
    assert made.extra == 1
    assert made.__code__.co_firstlineno == f.__code__.co_firstlineno
    assert made.__code__.co_filename == __file__


if sys.version_info >= (3, 12):

    def test_type_parameters():
        space, text = {}, "def f[T](x: T) -> T:\n    y = x\n    return y\n"
        linecache.cache["<typed>"] = (len(text), None, text.splitlines(True), "<typed>")
        exec(compile(text, "<typed>", "exec"), space)
        assert run(space["f"], 3) == ["x", "y", "return"]


def test_what_has_no_source():
    space = {}
    exec("def f(x):\n    return x", space)
    with pytest.raises(bp.NoSource, match="there is no source text for f"):
        locate(space["f"].__code__)
    for target in (len, int, functools.lru_cache(decorated), object()):
        with pytest.raises(bp.NoSource, match="has no Python source to read names from"):
            reporting(target, opener([], False))


def test_a_stale_file(tmp_path):
    file = tmp_path / "stale.py"
    text = "def f(x):\n    y = x + 1\n    return y\n"
    file.write_text(text)
    space = {}
    exec(compile(text, str(file), "exec"), space)
    file.write_text("\n" + text)
    with pytest.raises(bp.StaleSource, match="the source of f has changed"):
        locate(space["f"].__code__)


def test_a_function_with_an_assert_that_pytest_has_rewritten():
    def f(x):
        y = x + 1
        assert y > 0, "message"
        return y

    assert run(f, 3) == ["x", "y", "return"]


CELL = """\
import math

def outer(x):
    def inner(y):
        return math.floor(y)
    return inner(math.sqrt(x))
"""


def test_a_cell_whose_statements_are_compiled_one_by_one_as_notebooks_do():
    """The compiler treats a call of an imported module's function differently where it knows of the import."""
    space, file = {}, "<cell of a notebook>"
    linecache.cache[file] = (len(CELL), None, CELL.splitlines(True), file)
    try:
        for statement in ast.parse(CELL, file).body:
            exec(compile(ast.Module([statement], []), file, "exec"), space)
        names = run(space["outer"], 17.0, follow=True)
        assert names == ["x", "y", "return", "return"]  # inner, which the rewritten outer has made, is found as well
    finally:
        del linecache.cache[file]


class Calls(CodeListener):
    """A listener that notes each call and operator: what it binds, how it is written, and what is given to it."""

    def __init__(self, sites, noted):
        self.sites, self.noted = sites, noted

    def call(self, function, may_write=False, at=NO_CALL):
        self._note(self.sites[at])
        return function

    def operate(self, at, *operands):
        self._note(self.sites[at])
        return super().operate(at, *operands)

    def _note(self, site):
        self.noted.append((site.local, site.spelled, *(text for _, text in site.arguments)))


def test_calls_and_operators_with_their_sites():
    def f(x):
        table = {}
        table[int(abs(-x))] = max(x, 2, key=abs) if x > 9 else x**2
        x //= len(str(table))
        return [not x, sorted([x, *[1, 2]], reverse=True)[1:][0]]

    noted = []
    made = reporting(f, lambda name, file, sites: lambda: Calls(sites, noted), calls=True)
    assert made(3) == f(3)
    assert noted == [
        ("table[int(abs(-x))]", "pow", "x", "2"),
        ("table[int(abs(-x))]", "int", "abs(-x)"),
        ("table[int(abs(-x))]", "abs", "-x"),
        ("table[int(abs(-x))]", "neg", "x"),
        ("x", "len", "str(table)"),
        ("x", "str", "table"),
        ("x", "ifloordiv", "x", "len(str(table))"),
        ("return", "sorted", "[x, *[1, 2]]", "True"),
        ("return", "getitem", "sorted([x, *[1, 2]], reverse=True)", "1:"),
        ("return", "getitem", "sorted([x, *[1, 2]], reverse=True)[1:]", "0"),
    ]


def test_listener_that_overrides_nothing_changes_nothing():
    class Deaf(CodeListener):
        def __init__(self, sites):
            self.sites = sites

    def f(a):
        a += 1
        box, [b, *c] = [0], (a, a, 3)
        box[0] -= (d := b * 2)
        box[:1] = [box[0] & 7 | 2]
        del b
        with contextlib.nullcontext(d) as e:
            return [k / e for k in box if k], c

    for choice in ({}, {"operations": True}, {"calls": True}):
        assert reporting(f, lambda name, file, sites: lambda: Deaf(sites), **choice)(4) == f(4)
