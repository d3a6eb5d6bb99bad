"""Random programs of operations that all frameworks have, and the verdict on a probe of one.

They are drawn as those of ``tests/random_programs`` are, and judged by the same interpreter in NumPy. Nothing is
written in place: ``u *= 2`` makes a new value, which for PyTorch is spelled ``u = u * 2``.
"""

import re
from collections.abc import Callable
from typing import Any

from backends import FRAMEWORKS

import backprobe as bp
from random_programs.compare import LARGEST, Tally, compare, load
from random_programs.expressions import INDEXES, Kind
from random_programs.interpreter import ARGUMENTS, Interpreter
from random_programs.statements import CONTAINERS, Signature, Statements, block
from torch_framework import Framework

HEADER = "W3 = vector([0.71, -1.13, 0.43])\nW2 = vector([0.87, -0.59])\n"
AUGMENTED = re.compile(r"^( *)(\S+) ([-+*/])= (.*)$", re.MULTILINE)


def generate(below: Callable[[int], int]) -> str:
    """A program as text; ``below(n)`` decides everything."""
    main, texts = Plain(below), []
    for at in range(below(3)):
        text, signature = Plain(below, functions=list(main.functions)).function(f"helper{at}", 1 + below(3))
        texts.append(text)
        main.functions.append(signature)
    names = [main.add(kind, name) for kind, name in [((3, True), "x"), ((3, False), "z"), ((3, True), "y")]]
    main.containers = [made for made in CONTAINERS if main.chance(4)]
    body = [*main.containers, *main.statements(3 + below(9))]
    texts.append(block(f"def f({', '.join(names)})", [*body, f"return {main.output()}"]))
    return "\n\n".join([HEADER, *texts]) + "\n"


class Plain(Statements):
    """Draws what makes new values only, with operators spelled as functions."""

    def statements(self, count: int) -> list[str]:
        body: list[str] = []
        while len(body) < count:
            choices = [self.assignment, self.view, self.assignment, self.alias, self.chained, self.augmented]
            choices += [self.several, self.starred, self.element, self.listed, self.call, self.call, self.deletion]
            if self.depth < 2:
                choices += [self.repeat, self.each, self.branch]
            if self.depth == 0:
                choices += [self.inner, self.arrow]
            body += self.pick(choices)() or self.assignment()
        return body

    def fresh(self, size: int, depth: int) -> str:
        ways = [
            lambda: f"({self.atom(size, depth)} * {self.number()})",
            lambda: self.added(size, depth),
            lambda: f"ops.{self.pick(['sin', 'cos', 'tanh'])}({self.atom(size, depth)})",
            lambda: f"({self.atom(size, depth)} * {self.atom(self.pick([size, 0]), depth)})",
            lambda: f"({self.atom(size, depth)} / (2.0 + {self.small(size)}))",
            lambda: f"ops.exp((ops.sin({self.atom(size, depth)}) * 0.3))",
            lambda: self.square(size),
            lambda: f"({self.number()} {self.pick('+-')} {self.atom(size, depth)})",
        ]
        if size == 3 and depth > 0:
            ways.append(lambda: f"sum({self.comprehension()})")
        if size == 0:
            ways.append(lambda: f"ops.sum({self.atom(self.pick([3, 2]), depth - 1)})")
        return self.pick(ways)()

    def small(self, size: int) -> str:
        return f"ops.sin({self.square(size)})"

    def bindable(self, kind: Kind) -> str:
        return self.fresh(kind[0], 2)

    def alias(self) -> list[str]:
        kind = self.kind()
        if not self.known(*kind):
            return []
        value = self.pick(self.known(*kind))
        return [f"{self.target(kind)} = {value}"]

    def chained(self) -> list[str]:
        kind = self.kind()
        value = self.bindable(kind)
        return [f"{self.target(kind)} = {self.target(kind)} = {value}"]

    def augmented(self) -> list[str]:
        """``u *= …`` on a variable of this function, or on an element."""
        sizes = [size for size in (3, 2, 0) if self.bound[size, False]]
        if not sizes:
            return []
        size = self.pick(sizes)
        return [f"{self.pick(self.bound[size, False])} {self.pick('*+-')}= {self.fresh(size, 1)}"]

    def view(self) -> list[str]:
        whole, part = self.pick([(3, 2), (3, 2), (3, 0), (2, 0)])
        owners = self.known(whole, True, False)
        if not owners:
            return []
        value = f"{self.pick(owners)}[{self.pick(INDEXES[whole, part])}]"
        return [f"{self.target((part, False))} = {value}"]

    def element(self) -> list[str]:
        if not self.containers:
            return []
        target, value = self.pick(CONTAINERS[self.pick(self.containers)]), self.bindable((3, False))
        return [f"{self.add((3, False), target)} = {value}"]

    def output(self) -> str:
        every = [(size, name) for (size, _), names in self.bound.items() for name in names]
        terms = []
        for _ in range(min(len(every), 3 + self.below(6))):
            size, name = every.pop(self.below(len(every)))
            terms.append(f"{f'ops.sum({name} * W{size})' if size else name} * {self.number()}")
        return " + ".join(terms)

    def inside(self, **options: Any) -> "Plain":
        self.has_closures = True
        around = {kind: self.known(*kind) for kind in self.bound}
        return Plain(self.below, suffix="1", around=around, depth=1, **options)

    def arrow(self) -> list[str]:
        inside = self.inside(may_bind=False)
        inside.add((3, False), "u1")
        name = f"arrow{len(self.functions)}"
        body = inside.fresh(3, 2)
        self.functions.append(Signature(name, ((3, False),)))
        return [f"{name} = lambda u1: {body}", *self.call()]


class PlainInterpreter(Interpreter):
    """The oracle, which takes the operators from ``ops``."""

    def called(self, scope: Any, function: Any, arguments: Any) -> Any:
        name = getattr(function, "attr", None)
        if name is None:
            return super().called(scope, function, arguments)
        return self.applied(name, *[self.value(scope, argument) for argument in arguments])


def expanded(program: str) -> str:
    """The program without augmented assignments, which PyTorch would write in place."""
    return AUGMENTED.sub(r"\1\2 = \2 \3 (\4)", program)


def recording(program: str, framework: Framework, path: Any) -> bp.Recording:
    """What a probe of this program says."""
    with framework.wide():
        function = load(program, path, ops=framework.ops, vector=lambda n: framework.tensor(n, "float64"))
        return bp.probe(function)(*(framework.tensor(numbers, "float64") for numbers in ARGUMENTS))


def check(program: str, framework: Framework, path: Any, tally: Tally) -> bool:
    """Compare names, values, gradients and statuses. False where the values are too large or steep for differences."""
    tally.run += 1
    plain = expanded(program)
    oracle = PlainInterpreter()
    try:
        oracle.run(plain)
        if not oracle.memory.largest < LARGEST:
            tally.discarded["too large"] += 1
            return False
        rec = recording(plain if framework.name == "torch" else program, framework, path)
        agrees = compare(plain, oracle.names.bindings, rec, tally, framework.numpy, PlainInterpreter)
        if agrees and framework.name != "torch":
            compare_statuses(rec, recording(plain, FRAMEWORKS["torch"], path))
        return agrees
    except Exception as error:
        error.add_note(program)
        raise


def compare_statuses(rec: bp.Recording, other: bp.Recording) -> None:
    """Which values are connected does not depend on the framework; a gradient of 0 is not taken for none."""
    assert list(rec) == list(other)
    for name, entry in rec.items():
        assert entry.status == other[name].status, f"{name} is {entry.status}, in PyTorch {other[name].status}"
