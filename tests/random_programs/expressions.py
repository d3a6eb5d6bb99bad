"""Draws expressions, as text, of what is bound where they stand."""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Kind = tuple[int, bool]
"""A variable's size (0 for a scalar), and whether it is steady: never written in place.

PyTorch refuses a backward pass over what was saved for it and then overwritten. So only steady variables, and the
results of operations on others, go where an operation saves its operand; a few programs do as they please.
"""
NAMES: dict[Kind, tuple[str, ...]] = {
    (3, True): ("x", "y", "e", "g"),
    (3, False): ("z", "u", "v", "w"),
    (2, True): ("h", "o"),
    (2, False): ("p", "q", "r"),
    (0, True): ("k", "m"),
    (0, False): ("s", "n"),
}
NUMBERS = (0.5, -0.7, 1.2, 0.9, -1.1)
INDEXES = {  # how a subscript is written, by the size of what is indexed and the size of what comes out
    (3, 3): ("0:3", "::1"),
    (3, 2): ("0:2", "1:3", "::2"),
    (3, 0): ("0", "1", "-1"),
    (2, 2): ("0:2",),
    (2, 0): ("0", "1"),
}


def combined(operator: str, left: str, right: str) -> str:
    """In brackets, wherever it may go. The operator is drawn first."""
    return f"({left} {operator} {right})"


def saves_its_result(expression: str) -> bool:
    node = ast.parse(expression, mode="eval").body
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("tanh", "exp")


@dataclass(frozen=True)
class Signature:
    """How a function of the program is called: the kinds of its parameters, and how many vectors it returns."""

    name: str
    parameters: tuple[Kind, ...]
    results: int = 1


@dataclass
class Expressions:
    """What is bound in one place for certain, by kind, and expressions of that.

    ``below(n)`` decides everything: a number from 0 to n - 1, 0 being the plainest choice.
    """

    below: Callable[[int], int]
    is_careless: bool = False
    suffix: str = ""  # names inside an inner function differ from those around it, which it can read
    bound: dict[Kind, list[str]] = field(default_factory=lambda: {kind: [] for kind in NAMES})
    around: dict[Kind, list[str]] = field(default_factory=lambda: {kind: [] for kind in NAMES})
    functions: list[Signature] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    may_bind: bool = True  # a walrus is out of place in a lambda
    may_write: bool = False  # a write in the middle of a statement: one at most, and no call beside it

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[self.below(len(choices))]

    def chance(self, one_in: int) -> bool:
        return self.below(one_in) == one_in - 1

    def known(self, size: int, *steadiness: bool) -> list[str]:
        kinds = [(size, is_steady) for is_steady in steadiness]
        return [name for kind in kinds for name in self.bound[kind] + self.around[kind]]

    def add(self, kind: Kind, name: str) -> str:
        if name not in self.bound[kind]:
            self.bound[kind].append(name)
        return name

    def target(self, kind: Kind) -> str:
        return self.add(kind, self.pick(NAMES[kind]) + self.suffix)

    def number(self) -> str:
        """A literal, or what differs from one round of a loop to the next."""
        is_counted = self.counters and self.chance(3)
        return f"(0.6 + 0.25 * {self.pick(self.counters)})" if is_counted else repr(self.pick(NUMBERS))

    def bindable(self, kind: Kind) -> str:
        """A value for a variable of this kind; one that its operation saves is no value for what is to be written."""
        size, is_steady = kind
        value = self.fresh(size, 2)
        return f"({value} * 0.8)" if not is_steady and not self.is_careless and saves_its_result(value) else value

    def fresh(self, size: int, depth: int) -> str:
        """An expression whose value is a new tensor of this size, and which saves nothing that may be written."""
        ways: list[Callable[[], str]] = [
            lambda: f"({self.atom(size, depth)} * {self.number()})",
            lambda: self.added(size, depth),
            lambda: self.applied(size, depth),
            lambda: f"({self.safe(size, depth)} * {self.safe(self.pick([size, 0]), depth)})",
            lambda: f"({self.safe(size, depth)} / (2.0 + {self.small(size)}))",
            lambda: f"torch.exp((torch.sin({self.safe(size, depth)}) * 0.3))",
            lambda: self.square(size),
            lambda: combined(self.pick("+-"), self.number(), self.atom(size, depth)),
            lambda: f"{self.atom(size, depth)}.clone()",
        ]
        if size == 3 and depth > 0:
            ways.append(lambda: f"sum({self.comprehension()})")
        if size == 0:
            ways.append(lambda: f"{self.atom(self.pick([3, 2]), depth - 1)}.sum()")
        return self.pick(ways)()

    def applied(self, size: int, depth: int) -> str:
        function, argument = self.pick(["sin", "cos", "tanh"]), self.safe(size, depth)
        return f"{argument}.{function}()" if self.chance(2) else f"torch.{function}({argument})"

    def added(self, size: int, depth: int) -> str:
        sizes = self.pick([(size, size), (size, 0), (0, size)])
        return combined(self.pick("+-"), *[self.atom(side, depth) for side in sizes])

    def square(self, size: int) -> str:
        """The same object on both sides of an operation."""
        names = self.known(size, True, False) if self.is_careless else self.known(size, True)
        if not names:
            return "({0} + {0})".format(self.atom(size, 0))
        name = self.pick(names)
        return f"({name} * {self.pick(names) if self.is_careless else name})"

    def small(self, size: int) -> str:
        """Between -1 and 1, and so no danger in a divisor."""
        square = self.square(size)
        return f"torch.{'sin' if '+' in square else 'tanh'}({square})"

    def safe(self, size: int, depth: int) -> str:
        """An operand that its operation may save."""
        names = self.known(size, True)
        if self.is_careless:
            return self.atom(size, depth)
        if names and (depth <= 0 or self.chance(2)):
            return self.pick(names)
        return self.fresh(size, depth - 1) if depth > 0 else f"({self.atom(size, 0)} * {self.number()})"

    def atom(self, size: int, depth: int) -> str:
        """Any operand of this size: a variable, a view of one, or something that has effects besides."""
        names, writable = self.known(size, False, True), self.known(size, False)
        way = self.below(12)
        if depth > 0 and way > 5:
            single = [known for known in self.functions if known.results == 1]
            if way == 11 and self.may_bind:
                value = self.bindable((size, False))
                return f"({self.target((size, False))} := {value})"
            if way == 10 and self.may_write and writable:
                self.may_write = False
                return self.written(self.pick(writable), size)
            if way == 9 and size == 3 and single and not self.may_write:
                return self.called(self.pick(single))
            return self.fresh(size, depth - 1)
        if size == 3 or (names and way < 5):
            return self.pick(names)
        pairs = [(whole, part) for whole, part in INDEXES if part == size < whole]
        views = [(name, pair) for pair in pairs for name in self.known(pair[0], False, True)]
        name, pair = self.pick(views)  # a view that is never named
        return f"{name}[{self.pick(INDEXES[pair])}]"

    def written(self, target: str, size: int) -> str:
        """A method that works in place and returns the tensor that it has written."""
        method = self.pick(["mul", "add", "sub", "div", "sin", "cos", "neg", "copy", "zero"])
        arguments: dict[str, Callable[[], str]] = {
            "mul": self.number,
            "add": lambda: self.operand(size),
            "sub": lambda: self.operand(size),
            "div": lambda: "1.4",
            "copy": lambda: self.fresh(size, 1),
        }
        return f"{target}.{method}_({arguments[method]() if method in arguments else ''})"

    def operand(self, size: int) -> str:
        """What is added or subtracted in place: saved by nothing, so any whole vector will do."""
        names = self.known(3, False, True)
        whole = size == 3 and names and self.chance(3)
        return self.pick(names) if whole else self.fresh(self.pick([size, 0]), 1)

    def called(self, signature: Signature) -> str:
        self.may_write = False
        arguments = []
        for kind in signature.parameters:
            names = self.known(*kind)
            arguments.append(self.pick(names) if names and not self.chance(3) else self.fresh(kind[0], 0))
        return f"{signature.name}({', '.join(arguments)})"

    def comprehension(self) -> str:
        """A list of two, of a function of two variables."""
        names, writable, variable = self.known(3, False, True), self.known(3, False), f"t{self.suffix}"
        items, element = [self.pick(names) for _ in range(2)], ""
        if self.functions and self.chance(4):
            items = [self.pick(writable or names) for _ in range(2)]
            single = [known for known in self.functions if known.results == 1 and known.parameters == ((3, False),)]
            if single and writable:
                self.may_write = False
                element = f"{self.pick(single).name}({variable})"
        if not element:
            element = f"({variable} * {self.number()})"
            if self.chance(2):
                self.bound[3, False].insert(0, variable)
                element = f"({element} + {self.fresh(3, 0)})"
                self.bound[3, False].remove(variable)
        return f"[{element} for {variable} in ({', '.join(items)})]"
