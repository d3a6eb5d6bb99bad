"""Draws statements, functions and whole programs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from textwrap import indent
from typing import Any

from random_programs.expressions import INDEXES, NAMES, Expressions, Kind, Signature

HEADER = """import torch

W3 = torch.tensor([0.71, -1.13, 0.43], dtype=torch.float64)
W2 = torch.tensor([0.87, -0.59], dtype=torch.float64)
"""
CONTAINERS = {"d = {}": ("d['k']", "d['j']"), "c = [None, None]": ("c[0]", "c[1]")}
"""What makes one, which comes first in a program so that its elements can be bound anywhere, and its elements."""


def block(header: str, body: list[str]) -> str:
    return f"{header}:\n" + indent("\n".join(body), "    ")


def generate(below: Callable[[int], int]) -> str:
    main = Statements(below)
    main.is_careless = main.chance(12)
    texts = []
    for at in range(below(3)):
        helper = Statements(below, main.is_careless, functions=list(main.functions))
        text, signature = helper.function(f"helper{at}", 1 + below(3))
        texts.append(text)
        main.functions.append(signature)
    parameters = [((3, True), "x"), ((3, False), "z"), ((3, True), "y")][: 2 + below(2)]
    names = [main.add(kind, name) for kind, name in parameters]
    main.containers = [made for made in CONTAINERS if main.chance(4)]
    body = [*main.containers, *main.statements(3 + below(9))]
    texts.append(block(f"def f({', '.join(names)})", [*body, f"return {main.output()}"]))
    return "\n\n".join([HEADER, *texts]) + "\n"


@dataclass
class Statements(Expressions):
    """Draws a body. A statement is a text, of several lines where it has a body of its own."""

    containers: list[str] = field(default_factory=list)
    depth: int = 0
    has_closures: bool = False

    def function(self, name: str, count: int) -> tuple[str, Signature]:
        kinds = [(3, not self.below(3))]
        kinds += [self.pick([(3, False), (2, False), (3, True)]) for _ in range(self.below(2))]
        parameters = [self.add(kind, f"{NAMES[kind][at]}{self.suffix}") for at, kind in enumerate(kinds)]
        body = self.statements(count)
        results = 1 + self.chance(4)
        values = ", ".join(self.returned() for _ in range(results))
        text = block(f"def {name}({', '.join(parameters)})", [*body, f"return {values}"])
        return text, Signature(name, tuple(kinds), results)

    def returned(self) -> str:
        """What a function returns may be written by whoever gets it: a new tensor, or one that may be written here."""
        names = self.known(3, False)
        return self.pick(names) if names and self.chance(2) else self.fresh(3, 2)

    def output(self) -> str:
        """A weighted sum of several variables, so that no gradient is a round number."""
        every = [(size, name) for (size, _), names in self.bound.items() for name in names]
        terms = []
        for _ in range(min(len(every), 3 + self.below(6))):
            size, name = every.pop(self.below(len(every)))
            terms.append(f"{f'({name} * W{size}).sum()' if size else name} * {self.number()}")
        return " + ".join(terms)

    def statements(self, count: int) -> list[str]:
        body: list[str] = []
        while len(body) < count:
            self.may_write = self.chance(5)
            choices = [self.assignment, self.write, self.view, self.write, self.assignment, self.alias, self.chained]
            choices += [self.several, self.starred, self.element, self.listed, self.call, self.call, self.deletion]
            if self.depth < 2:
                choices += [self.repeat, self.each, self.branch]
            if self.depth == 0:
                choices += [self.inner, self.arrow]
            body += self.pick(choices)() or self.assignment()
        return body

    def nested(self, count: int) -> list[str]:
        self.depth += 1
        body = self.statements(count)
        self.depth -= 1
        return body

    # what binds: each is a list of statements, empty where there is nothing to make it of

    def kind(self) -> Kind:
        return self.pick([(3, False), (3, False), (3, True), (2, False), (0, False), (0, True), (2, True)])

    def assignment(self) -> list[str]:
        kind = self.kind()
        value = self.bindable(kind)
        return [f"{self.target(kind)} = {value}"]

    def alias(self) -> list[str]:
        kind = self.kind()
        if not self.known(*kind):
            return []
        value = self.pick(self.known(*kind))
        if kind[0] == 3 and self.chance(4):
            value = f"{value}.contiguous()"
        return [f"{self.target(kind)} = {value}"]

    def chained(self) -> list[str]:
        """``a = b = …``, sometimes with an element among the targets."""
        kind = self.kind()
        value = self.bindable(kind)
        first, written = self.target(kind), self.known(3, False)
        to_element = kind == (0, False) and written and self.chance(2)
        second = f"{self.pick(written)}[{self.pick(INDEXES[3, 0])}]" if to_element else self.target(kind)
        return [f"{first} = {second} = {value}"]

    def several(self) -> list[str]:
        """Tuple targets: of a tuple, of a list, of a tensor's elements."""
        way, steady = self.below(3), self.known(3, True)
        if way == 2 and steady:
            value, kinds = self.pick(steady), [(0, True)] * 3
        elif way == 1:
            value, kinds = self.comprehension(), [(3, False)] * 2
        else:
            kinds = [self.kind(), self.kind()]
            value = ", ".join(self.bindable(kind) for kind in kinds)
        return [f"{', '.join(self.target(kind) for kind in kinds)} = {value}"]

    def starred(self) -> list[str]:
        """``a, *b = …``; a list of two, so that both of its elements are always there."""
        first, name = self.kind(), f"rest{self.suffix}"
        step = -1 if self.chance(3) else 1
        values = [self.bindable(kind) for kind in [first, (3, False), (3, False)][::step]]
        targets = [self.target(first), f"*{name}"][::step]
        self.add_list(name)
        return [f"{', '.join(targets)} = {', '.join(values)}"]

    def listed(self) -> list[str]:
        value = self.comprehension()
        return [f"{self.add_list(f'ts{self.suffix}')} = {value}"]

    def add_list(self, name: str) -> str:
        for at in range(2):
            self.add((3, False), f"{name}[{at}]")
        return name

    def element(self) -> list[str]:
        if not self.containers:
            return []
        target = self.pick(CONTAINERS[self.pick(self.containers)])
        names = self.known(3, False)
        if target in names and self.chance(3):
            return [f"{target} *= {self.number()}"]
        value = self.pick(names) if names and self.chance(3) else self.bindable((3, False))
        return [f"{self.add((3, False), target)} = {value}"]

    def call(self) -> list[str]:
        """A call of a function of the program, for its result or for what it writes."""
        if not self.functions:
            return []
        signature = self.pick(self.functions)
        value = self.called(signature)
        if self.chance(4):
            return [value]
        return [f"{', '.join(self.target((3, False)) for _ in range(signature.results))} = {value}"]

    def view(self) -> list[str]:
        is_steady = self.chance(4)
        whole, part = self.pick([(3, 2), (3, 2), (3, 0), (2, 0), (2, 2), (3, 3)])
        owners = self.known(whole, is_steady)
        if not owners:
            return []
        value = f"{self.pick(owners)}[{self.pick(INDEXES[whole, part])}]"
        return [f"{self.target((part, is_steady))} = {value}"]

    def deletion(self) -> list[str]:
        """``del`` of what no loop and no inner function will ask for again."""
        names = self.bound[2, False]
        if not names or self.depth or self.has_closures:
            return []
        return [f"del {names.pop(self.below(len(names)))}"]

    # what writes

    def write(self) -> list[str]:
        """A statement that writes in place."""
        sizes = [size for size in (3, 2, 0) if self.known(size, False)]
        if not sizes:
            return []
        size = self.pick(sizes)
        own = [name for name in self.bound[size, False] if name.isidentifier()]
        way = self.below(4)
        if way == 0 and own:  # += makes a name a local, so it must be one
            return [f"{self.pick(own)} {self.change(size)}"]
        target = self.pick(self.known(size, False))
        if way == 3 or not size:
            return [self.written(target, size)]
        whole, part = self.pick([pair for pair in INDEXES if pair[0] == size])
        target = f"{target}[{self.pick(INDEXES[whole, part])}]"
        if way == 1:
            return [f"{target} {self.change(part)}"]
        return [f"{target} = {self.number() if self.chance(3) else self.fresh(part, 1)}"]

    def change(self, size: int) -> str:
        """The rest of an augmented assignment; its operand is new, for memory may not overlap."""
        operator = self.pick("*+-/")
        if operator == "/":
            return "/= 1.6"
        if operator == "*":
            return f"*= {self.fresh(self.pick([size, 0]), 1) if self.chance(2) else self.number()}"
        return f"{operator}= {self.operand(size)}"

    # what has a body

    def repeat(self) -> list[str]:
        counter, times = f"{'ij'[self.depth]}{self.suffix}", 2 + self.chance(3)
        self.counters.append(counter)
        body = self.nested(1 + self.below(3))
        self.counters.remove(counter)
        if self.chance(2):
            return [f"{counter} = 0\n" + block(f"while {counter} < {times}", [*body, f"{counter} += 1"])]
        return [block(f"for {counter} in range({times})", body)]

    def each(self) -> list[str]:
        names = self.known(3, False)
        if not names:
            return []
        items = ", ".join(self.pick(names) for _ in range(2))
        return [block(f"for {self.target((3, False))} in ({items})", self.nested(1 + self.below(3)))]

    def branch(self) -> list[str]:
        """On a loop's counter or a constant. What a branch binds may be unbound after it."""
        counter = self.pick(self.counters) if self.counters else ""
        equals, bodies = self.below(2), []
        for _ in range(2):
            before = {kind: list(names) for kind, names in self.bound.items()}
            bodies.append(self.nested(1 + self.below(2)))
            self.bound = before
        text = block(f"if {counter} == {equals}" if counter else f"if {bool(equals)}", bodies[0])
        return [text + "\n" + block("else", bodies[1]) if self.chance(2) else text]

    def inside(self, **options: Any) -> "Statements":
        """Where an inner function is, which reads and writes what is around it."""
        self.has_closures = True
        around = {kind: self.known(*kind) for kind in NAMES}
        return Statements(self.below, self.is_careless, suffix="1", around=around, depth=1, **options)

    def inner(self) -> list[str]:
        inside = self.inside(functions=list(self.functions))
        text, signature = inside.function(f"inner{len(self.functions)}", 1 + self.below(2))
        self.functions.append(signature)
        return [text, *self.call()]

    def arrow(self) -> list[str]:
        """A lambda, which may return its argument, written or not."""
        inside = self.inside(may_bind=False)
        inside.add((3, False), "u1")
        body = inside.written("u1", 3) if self.chance(2) else inside.fresh(3, 2)
        name = f"arrow{len(self.functions)}"
        self.functions.append(Signature(name, ((3, False),)))
        return [f"{name} = lambda u1: {body}", *self.call()]
