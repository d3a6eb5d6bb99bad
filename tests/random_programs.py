"""Random programs and what their gradients are: a generator, and an oracle that shares no code with what it judges.

A program is a tree of the nodes below. ``source`` writes it down as Python for PyTorch, which a probe records.
``Interpreter`` runs the same tree in NumPy, keeps account of names, objects, memory and versions by the definition of
what a name's gradient is, and can add a small number to any one of the bound values. Central differences of its
output are what the recorded gradients have to be.

``python tests/random_programs.py 20000 [SEED]`` runs that many programs.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import backprobe as bp

STEP = 1e-6
RTOL, ATOL = 1e-6, 1e-7
LARGEST = 100.0  # rounding in a central difference grows with the values: LARGEST * 2.2e-16 / STEP is within ATOL
ARGUMENTS = ((0.31, -0.83, 1.13), (-0.57, 0.92, 0.44), (1.07, 0.23, -0.68))
WEIGHTS = {3: (0.71, -1.13, 0.43), 2: (0.87, -0.59)}
INDEXES = {  # how a subscript is written, by the size of what is indexed and the size of what comes out
    (3, 3): ("0:3", "::1"), (3, 2): ("0:2", "1:3", "::2"), (3, 0): ("0", "1", "-1"),
    (2, 2): ("0:2",), (2, 0): ("0", "1"),
}  # fmt: skip


# the language: expressions


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Scaled:
    """A number that differs from one round of a loop to the next."""

    counter: str


@dataclass(frozen=True)
class Weights:
    """One of the constant vectors of the module."""

    size: int


@dataclass(frozen=True)
class Read:
    """A local variable: as an expression its value, as a target the name."""

    name: str


@dataclass(frozen=True)
class Element:
    """An element of a list or dict that a local variable holds; also a target."""

    owner: str
    key: str | int


@dataclass(frozen=True)
class Apply:
    """A function of one tensor, as a method or from the module ``torch``."""

    function: str
    argument: Any
    is_method: bool = True


@dataclass(frozen=True)
class Arithmetic:
    operator: str
    left: Any
    right: Any


@dataclass(frozen=True)
class View:
    """A subscript: as an expression a view, as a target a write to its owner."""

    owner: Any
    index: str


@dataclass(frozen=True)
class Walrus:
    name: str
    value: Any


@dataclass(frozen=True)
class Call:
    function: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Write:
    """A method that works in place and returns the tensor that it has written."""

    target: Any
    method: str
    argument: Any = None


@dataclass(frozen=True)
class Comprehension:
    element: Any
    variable: str
    items: tuple[Any, ...]


@dataclass(frozen=True)
class Total:
    """``sum([…])``."""

    of: Comprehension


@dataclass(frozen=True)
class Group:
    """Several values, or several targets."""

    items: tuple[Any, ...]


@dataclass(frozen=True)
class Star:
    """A starred target."""

    name: str


@dataclass(frozen=True)
class Lambda:
    parameter: str
    body: Any


@dataclass(frozen=True)
class Empty:
    """A container to put elements into."""

    text: str


# the language: statements


@dataclass(frozen=True)
class Assign:
    targets: tuple[Any, ...]
    value: Any


@dataclass(frozen=True)
class Augment:
    target: Any
    operator: str
    value: Any


@dataclass(frozen=True)
class Do:
    """An expression as a statement."""

    value: Any


@dataclass(frozen=True)
class Repeat:
    """``for i in range(n)``, or the same with ``while``."""

    counter: str
    times: int
    body: tuple[Any, ...]
    is_while: bool


@dataclass(frozen=True)
class Each:
    variable: str
    items: tuple[Any, ...]
    body: tuple[Any, ...]


@dataclass(frozen=True)
class If:
    """A branch on a loop's counter, or on a constant where ``counter`` is empty."""

    counter: str
    equals: int
    then: tuple[Any, ...]
    otherwise: tuple[Any, ...]


@dataclass(frozen=True)
class Delete:
    name: str


@dataclass(frozen=True)
class Return:
    value: Any


@dataclass(frozen=True)
class Define:
    """A function, of the module or inside another."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Any, ...]


@dataclass(frozen=True)
class Program:
    """Functions of a module; the last is what is probed."""

    functions: tuple[Define, ...]

    @property
    def main(self) -> Define:
        return self.functions[-1]

    @property
    def source(self) -> str:
        vectors = [f"W{n} = torch.tensor({list(values)}, dtype=torch.float64)" for n, values in WEIGHTS.items()]
        lines = ["import torch", "", *vectors]
        for function in self.functions:
            lines += ["", "", *_lines(function, 0)]
        return "\n".join(lines) + "\n"


# the text of a program


def text(node: Any) -> str:
    """An expression or target as Python, in brackets wherever it might need them."""
    match node:
        case Number(value):
            return repr(value)
        case Scaled(counter):
            return f"(0.6 + 0.25 * {counter})"
        case Weights(size):
            return f"W{size}"
        case Read(name):
            return name
        case Element(owner, key):
            return f"{owner}[{key!r}]"
        case Apply(function, argument, is_method):
            return f"{text(argument)}.{function}()" if is_method else f"torch.{function}({text(argument)})"
        case Arithmetic(operator, left, right):
            return f"({text(left)} {operator} {text(right)})"
        case View(owner, index):
            return f"{text(owner)}[{index}]"
        case Walrus(name, value):
            return f"({name} := {text(value)})"
        case Call(function, arguments):
            return f"{function}({', '.join(map(text, arguments))})"
        case Write(target, method, argument):
            return f"{text(target)}.{method}({'' if argument is None else text(argument)})"
        case Comprehension(element, variable, items):
            return f"[{text(element)} for {variable} in {text(Group(items))}]"
        case Total(of):
            return f"sum({text(of)})"
        case Group(items):
            return f"({', '.join(map(text, items))})"
        case Star(name):
            return f"*{name}"
        case Lambda(parameter, body):
            return f"lambda {parameter}: {text(body)}"
        case Empty(written):
            return written
    raise TypeError(node)


def _lines(node: Any, depth: int) -> Iterator[str]:
    """A statement as lines of Python."""
    pad = "    " * depth
    match node:
        case Assign(targets, value):
            yield pad + " = ".join(map(text, (*targets, value)))
        case Augment(target, operator, value):
            yield f"{pad}{text(target)} {operator}= {text(value)}"
        case Do(value):
            yield pad + text(value)
        case Repeat(counter, times, body, is_while):
            if is_while:
                yield f"{pad}{counter} = 0"
            yield f"{pad}while {counter} < {times}:" if is_while else f"{pad}for {counter} in range({times}):"
            yield from _block(body, depth + 1)
            if is_while:
                yield f"{pad}    {counter} += 1"
        case Each(variable, items, body):
            yield f"{pad}for {variable} in {text(Group(items))}:"
            yield from _block(body, depth + 1)
        case If(counter, equals, then, otherwise):
            yield f"{pad}if {f'{counter} == {equals}' if counter else bool(equals)}:"
            yield from _block(then, depth + 1)
            if otherwise:
                yield pad + "else:"
                yield from _block(otherwise, depth + 1)
        case Delete(name):
            yield f"{pad}del {name}"
        case Return(value):
            yield f"{pad}return {text(value)}"
        case Define(name, parameters, body):
            yield f"{pad}def {name}({', '.join(parameters)}):"
            yield from _block(body, depth + 1)


def _block(body: Sequence[Any], depth: int) -> Iterator[str]:
    for statement in body:
        yield from _lines(statement, depth)


# the interpreter's memory


@dataclass(eq=False)
class Storage:
    """The memory of one tensor that an operation made, a row for every variant of the program that runs."""

    data: np.ndarray
    version: int = 0
    objects: list[Tensor] = field(default_factory=list)  # the base, then every view ever made


@dataclass(eq=False)
class Tensor:
    """An object that a name can hold: all of a storage (the base), or a view of some positions of it.

    ``moment`` identifies the object at its present version, and so what a name bound to it now means. A view has a
    value of its own between two writes to the storage, in which what was added to the view alone can live.
    """

    storage: Storage
    positions: np.ndarray
    is_scalar: bool
    moment: int
    own: np.ndarray | None = None

    @property
    def value(self) -> np.ndarray:
        return self.storage.data if self.own is None else self.own


@dataclass(eq=False)
class Function:
    """A function, and the scope that it was defined in."""

    name: str
    parameters: tuple[str, ...]
    body: tuple[Any, ...]
    outer: Scope | None


@dataclass(eq=False)
class Scope:
    """One entry of a function."""

    path: str
    outer: Scope | None = None
    values: dict[str, Any] = field(default_factory=dict)
    named: dict[str, list[tuple[str, Any, int]]] = field(default_factory=dict)  # leaf, object and moment, by local
    counts: Counter[str] = field(default_factory=Counter)
    entered: Counter[str] = field(default_factory=Counter)

    def find(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        assert self.outer is not None, name
        return self.outer.find(name)


@dataclass(frozen=True)
class Binding:
    """What the oracle says of one full name: which object at which version (None for a number), and the value."""

    name: str
    moment: int | None
    value: Any
    shape: tuple[int, ...] = ()


Nudges = dict[int, tuple[Any, Any, Any]]
"""What to add when a moment comes, by moment: rows, columns and amounts."""

FUNCTIONS = {"sin": np.sin, "cos": np.cos, "tanh": np.tanh, "exp": np.exp}
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
}  # fmt: skip
METHODS: dict[str, Callable[[Any, Any], Any]] = {
    "add_": OPERATORS["+"], "sub_": OPERATORS["-"], "mul_": OPERATORS["*"], "div_": OPERATORS["/"],
    "sin_": lambda a, b: np.sin(a), "cos_": lambda a, b: np.cos(a), "neg_": lambda a, b: -a,
    "zero_": lambda a, b: a * 0, "copy_": lambda a, b: a * 0 + b,
}  # fmt: skip


class Interpreter:
    """Runs a program in NumPy, once for every row of the arrays, each row with its own nudges."""

    def __init__(self, nudges: Nudges | None = None, rows: int = 1) -> None:
        self.nudges, self.rows = nudges or {}, rows
        self.moments = 0
        self.active: list[Scope] = []
        self.has_written = False
        self.bindings: list[Binding] = []
        self.largest = 0.0

    def run(self, program: Program) -> np.ndarray:
        """The program's output, a number per row."""
        module = Scope("")
        for function in program.functions:
            module.values[function.name] = Function(function.name, function.parameters, function.body, module)
        arguments = [
            self.made(np.array([values])) for values, _ in zip(ARGUMENTS, program.main.parameters, strict=False)
        ]
        with np.errstate(all="ignore"):  # a value that grows beyond all bounds shows in ``largest``
            result = self.enter(module.values[program.main.name], "", arguments)
        return result.value[:, 0]

    # tensors

    def nudged(self, moment: int, value: np.ndarray) -> np.ndarray:
        if moment in self.nudges:
            rows, columns, amounts = self.nudges[moment]
            value = value.copy()
            value[rows, columns] += amounts
        return value

    def moment(self) -> int:
        self.moments += 1
        return self.moments

    def made(self, value: np.ndarray, is_scalar: bool = False) -> Tensor:
        """What an operation returns: an object with memory of its own, where anything added to it is kept."""
        moment = self.moment()
        value = self.nudged(moment, np.array(np.broadcast_to(value, (self.rows, value.shape[1]))))
        self.largest = max(self.largest, float(np.abs(value).max()))
        made = Tensor(Storage(value), np.arange(value.shape[1]), is_scalar, moment)
        made.storage.objects.append(made)
        return made

    def viewed(self, owner: Tensor, index: str) -> Tensor:
        """A view: what is added to it is seen through it and through views of it, until the memory is written."""
        chosen, is_scalar = _chosen(owner, index)
        view = Tensor(owner.storage, owner.positions[chosen], is_scalar, self.moment())
        view.own = self.nudged(view.moment, owner.value[:, chosen])
        owner.storage.objects.append(view)
        return view

    def written(self, through: Tensor, value: np.ndarray) -> None:
        """A write: a new version of every object on that memory.

        What is added to the object written through, or to the base, is in the memory from then on; what is added to
        any other view is seen through that view alone.
        """
        storage = through.storage
        for each in storage.objects:
            each.moment = self.moment()
        storage.version += 1
        value = np.broadcast_to(value, through.value.shape)
        self.largest = max(self.largest, float(np.abs(value).max()))
        storage.data = storage.data.copy()
        storage.data[:, through.positions] = self.nudged(through.moment, value)
        base, *views = storage.objects
        if through is not base:
            storage.data = self.nudged(base.moment, storage.data)
        for view in views:
            seen = storage.data[:, view.positions]
            view.own = seen if view is through else self.nudged(view.moment, seen)
        self.has_written = True

    def stored(self, owner: Tensor, index: str, value: Any) -> None:
        """``owner[index] = value``: a write through the owner, all of it."""
        chosen, _ = _chosen(owner, index)
        new = owner.value.copy()
        new[:, chosen] = value.value if isinstance(value, Tensor) else value
        self.written(owner, new)

    # names

    def bind(self, scope: Scope, local: str, value: Any) -> None:
        """A name gets a value: a new binding unless the name means that object, at that version, already."""
        self.settle()
        found = list(_leaves(value))
        old = scope.named.get(local)
        if old is not None and [(leaf, id(item), _moment(item)) for leaf, item in found] == [
            (leaf, id(item), moment) for leaf, item, moment in old if isinstance(item, Tensor)
        ]:
            return
        scope.named.pop(local, None)
        if found:
            count = self._counted(scope, local)
            for leaf, item in found:
                self._note(f"{scope.path}:{local}#{count}{leaf}", item)
            scope.named[local] = [(leaf, item, _moment(item)) for leaf, item in found]

    def settle(self) -> None:
        """After a write every name that is live, in every active scope, means the new version of its object."""
        if not self.has_written:
            return
        self.has_written = False
        for scope in self.active:
            for local, held in scope.named.items():
                if any(_moment(item) != moment for _, item, moment in held):
                    count = self._counted(scope, local)
                    for leaf, item, moment in held:
                        if _moment(item) != moment:
                            self._note(f"{scope.path}:{local}#{count}{leaf}", item)
                    scope.named[local] = [(leaf, item, _moment(item)) for leaf, item, _ in held]

    def _counted(self, scope: Scope, local: str) -> int:
        scope.counts[local] += 1
        return scope.counts[local] - 1

    def _note(self, name: str, item: Any) -> None:
        if isinstance(item, Tensor):
            value = item.value[0].copy()
            shape = () if item.is_scalar else value.shape
            self.bindings.append(Binding(name, item.moment, value.reshape(shape), shape))
        else:
            self.bindings.append(Binding(name, None, item))

    def assign(self, scope: Scope, target: Any, value: Any) -> None:
        match target:
            case Read(name):
                scope.values[name] = value
                self.bind(scope, name, value)
            case Element(owner, key):
                scope.find(owner)[key] = value
                self.bind(scope, text(target), value)
            case View(owner, index):
                self.stored(self.value(scope, owner), index, value)
                self.settle()
            case Group(items):
                self._unpack(scope, items, value)

    def _unpack(self, scope: Scope, targets: Sequence[Any], value: Any) -> None:
        if isinstance(value, Tensor):
            value = [self.viewed(value, str(at)) for at in range(len(value.positions))]
        values = list(value)
        for at, target in enumerate(targets):
            if isinstance(target, Star):
                here = at + len(values) - len(targets) + 1
                self.assign(scope, Read(target.name), values[at:here])
                values[at:here] = [None]
            else:
                self.assign(scope, target, values[at])

    # functions and statements

    def enter(self, function: Function, path: str, arguments: Sequence[Any]) -> Any:
        scope = Scope(path, function.outer)
        self.active.append(scope)
        for parameter, argument in zip(function.parameters, arguments, strict=True):
            self.assign(scope, Read(parameter), argument)
        result = self.execute(scope, function.body)
        self.bind(scope, "return", result)
        self.active.remove(scope)
        return result

    def execute(self, scope: Scope, body: Sequence[Any]) -> Any:
        """Run statements; what the last of them returns, if it is a ``return``."""
        result = None
        for statement in body:
            result = self.statement(scope, statement)
            self.settle()
        return result

    def statement(self, scope: Scope, node: Any) -> Any:
        match node:
            case Assign(targets, value):
                found = self.value(scope, value)
                for target in targets:
                    self.assign(scope, target, found)
            case Augment(target, operator, value):
                self._augment(scope, target, operator, value)
            case Do(value):
                self.value(scope, value)
            case Repeat():
                self._repeat(scope, node)
            case Each(variable, items, body):
                for item in [self.value(scope, item) for item in items]:
                    self.assign(scope, Read(variable), item)
                    self.execute(scope, body)
            case If(counter, equals, then, otherwise):
                holds = scope.find(counter) == equals if counter else bool(equals)
                self.execute(scope, then if holds else otherwise)
            case Delete(name):
                del scope.values[name], scope.named[name]
            case Define(name, parameters, body):
                scope.values[name] = Function(name, parameters, body, scope)
            case Return(value):
                return self.value(scope, value)
        return None

    def _repeat(self, scope: Scope, node: Repeat) -> None:
        for number in range(node.times):
            if number == 0 or not node.is_while:
                self.assign(scope, Read(node.counter), number)
            self.execute(scope, node.body)
            if node.is_while:
                self.assign(scope, Read(node.counter), number + 1)

    def _augment(self, scope: Scope, target: Any, operator: str, value: Any) -> None:
        """Python's order: the target is read, then the value, then the target is written in place and assigned."""
        held, operand = self.value(scope, target), self.value(scope, value)
        self.written(held, OPERATORS[operator](held.value, _plain(operand)))
        self.assign(scope, target, held)

    # expressions

    def value(self, scope: Scope, node: Any) -> Any:
        return getattr(self, f"_{type(node).__name__.lower()}")(scope, node)

    def _number(self, scope: Scope, node: Number) -> float:
        return node.value

    def _scaled(self, scope: Scope, node: Scaled) -> float:
        return 0.6 + 0.25 * scope.find(node.counter)

    def _weights(self, scope: Scope, node: Weights) -> Tensor:
        return self.made(np.array([WEIGHTS[node.size]]))

    def _read(self, scope: Scope, node: Read) -> Any:
        return scope.find(node.name)

    def _element(self, scope: Scope, node: Element) -> Any:
        return scope.find(node.owner)[node.key]

    def _apply(self, scope: Scope, node: Apply) -> Tensor:
        argument = self.value(scope, node.argument)
        if node.function == "contiguous":  # the very object: only whole vectors are asked
            return argument
        if node.function == "clone":
            return self.made(argument.value, argument.is_scalar)
        if node.function == "sum":
            return self.made(argument.value.sum(axis=1, keepdims=True), True)
        return self.made(FUNCTIONS[node.function](argument.value), argument.is_scalar)

    def _arithmetic(self, scope: Scope, node: Arithmetic) -> Tensor:
        left, right = self.value(scope, node.left), self.value(scope, node.right)
        return self._combined(node.operator, left, right)

    def _combined(self, operator: str, left: Any, right: Any) -> Tensor:
        is_scalar = all(side.is_scalar for side in (left, right) if isinstance(side, Tensor))
        return self.made(OPERATORS[operator](_plain(left), _plain(right)), is_scalar)

    def _view(self, scope: Scope, node: View) -> Tensor:
        return self.viewed(self.value(scope, node.owner), node.index)

    def _walrus(self, scope: Scope, node: Walrus) -> Any:
        value = self.value(scope, node.value)
        self.assign(scope, Read(node.name), value)
        return value

    def _call(self, scope: Scope, node: Call) -> Any:
        function = scope.find(node.function)
        arguments = [self.value(scope, argument) for argument in node.arguments]
        count = scope.entered[function.name]
        scope.entered[function.name] += 1
        return self.enter(function, f"{scope.path}/{function.name}#{count}", arguments)

    def _write(self, scope: Scope, node: Write) -> Tensor:
        target = self.value(scope, node.target)
        argument = None if node.argument is None else _plain(self.value(scope, node.argument))
        self.written(target, METHODS[node.method](target.value, argument))
        return target

    def _comprehension(self, scope: Scope, node: Comprehension) -> list[Any]:
        """The variable is the comprehension's own: it is gone afterwards, though its count goes on."""
        results = []
        for item in [self.value(scope, item) for item in node.items]:
            self.assign(scope, Read(node.variable), item)
            results.append(self.value(scope, node.element))
        del scope.values[node.variable], scope.named[node.variable]
        return results

    def _total(self, scope: Scope, node: Total) -> Tensor:
        total: Any = 0
        for item in self.value(scope, node.of):
            total = self._combined("+", total, item)
        return total

    def _group(self, scope: Scope, node: Group) -> tuple[Any, ...]:
        return tuple(self.value(scope, item) for item in node.items)

    def _lambda(self, scope: Scope, node: Lambda) -> Function:
        return Function("<lambda>", (node.parameter,), (Return(node.body),), scope)

    def _empty(self, scope: Scope, node: Empty) -> Any:
        return {} if node.text == "{}" else [None, None]


def _chosen(owner: Tensor, index: str) -> tuple[np.ndarray, bool]:
    """The columns that a subscript takes, and whether what comes out is a scalar."""
    columns = np.arange(len(owner.positions))
    if ":" not in index:
        return columns[[int(index)]], True
    return columns[slice(*(int(part) if part else None for part in index.split(":")))], False


def _leaves(value: Any) -> Iterator[tuple[str, Any]]:
    """What of a value has a name: a tensor, a number, or the tensors in a list."""
    if isinstance(value, Tensor | int):
        yield "", value
    elif isinstance(value, list | tuple):
        yield from ((f".{at}", item) for at, item in enumerate(value) if item is not None)


def _moment(item: Any) -> int:
    return item.moment if isinstance(item, Tensor) else 0


def _plain(operand: Any) -> Any:
    return operand.value if isinstance(operand, Tensor) else operand


def differences(program: Program, moments: dict[int, int]) -> dict[int, np.ndarray]:
    """The central difference of the output by every element of the objects at these moments, all in one run.

    ``moments`` has the size of each; a row of the arrays is one element of one object, moved up or down.
    """
    rows, nudges = 0, {}
    for moment, size in moments.items():
        columns = np.arange(size)
        nudges[moment] = (np.r_[rows : rows + 2 * size], np.r_[columns, columns], np.repeat([STEP, -STEP], size))
        rows += 2 * size
    output = Interpreter(nudges, rows).run(program)
    result = {}
    for moment, size in moments.items():
        first = nudges[moment][0][0]
        result[moment] = (output[first : first + size] - output[first + size : first + 2 * size]) / (2 * STEP)
    return result


# the generator

Kind = tuple[int, bool]
"""A variable's size (0 for a scalar), and whether it is steady: never written in place.

PyTorch refuses a backward pass over what was saved for it and then overwritten. So only steady variables, and the
results of operations on others, go where an operation saves its operand; a few programs do as they please.
"""
NAMES: dict[Kind, tuple[str, ...]] = {
    (3, True): ("x", "y", "e", "g"), (3, False): ("z", "u", "v", "w"), (2, True): ("h", "o"),
    (2, False): ("p", "q", "r"), (0, True): ("k", "m"), (0, False): ("s", "n"),
}  # fmt: skip
NUMBERS = (0.5, -0.7, 1.2, 0.9, -1.1)


@dataclass(frozen=True)
class Signature:
    """How a function of the program is called: the kinds of its parameters, and how many vectors it returns."""

    name: str
    parameters: tuple[Kind, ...]
    results: int


@dataclass
class Place:
    """Where the generator is: what is bound there for certain, and what may be written there."""

    suffix: str = ""  # names inside an inner function differ from those around it, which it can read
    bound: dict[Kind, list[Any]] = field(default_factory=lambda: {kind: [] for kind in NAMES})
    around: dict[Kind, list[Any]] = field(default_factory=lambda: {kind: [] for kind in NAMES})
    functions: list[Signature] = field(default_factory=list)
    containers: list[str] = field(default_factory=list)
    counters: list[str] = field(default_factory=list)
    depth: int = 0
    is_inner: bool = False
    may_bind: bool = True  # a walrus is out of place in a lambda or comprehension
    may_write: bool = False  # a write in the middle of a statement: one at most, and no call beside it
    has_closures: bool = False

    def all(self, kind: Kind) -> list[Any]:
        return self.bound[kind] + self.around[kind]

    def add(self, kind: Kind, target: Any) -> None:
        if target not in self.bound[kind]:
            self.bound[kind].append(target)

    def saved(self) -> dict[Kind, list[Any]]:
        return {kind: list(names) for kind, names in self.bound.items()}


class Generator:
    """Draws a program. ``below(n)`` decides everything: a number from 0 to n - 1, 0 being the plainest choice."""

    def __init__(self, below: Callable[[int], int]) -> None:
        self.below = below
        self.is_careless = False

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[self.below(len(choices))]

    def chance(self, one_in: int) -> bool:
        return self.below(one_in) == one_in - 1

    def program(self) -> Program:
        self.is_careless = self.chance(12)
        functions: list[Define] = []
        signatures: list[Signature] = []
        for at in range(self.below(3)):
            define, signature = self.function(f"helper{at}", Place(functions=list(signatures)), 1 + self.below(3))
            functions.append(define)
            signatures.append(signature)
        place = Place(functions=signatures)
        parameters = [((3, True), "x"), ((3, False), "z"), ((3, True), "y")][: 2 + self.below(2)]
        for kind, name in parameters:
            place.add(kind, Read(name))
        body = [*self.opening(place), *self.block(place, 3 + self.below(9))]
        body.append(Return(self.output(place)))
        functions.append(Define("f", tuple(name for _, name in parameters), tuple(body)))
        return Program(tuple(functions))

    def opening(self, place: Place) -> list[Any]:
        """Containers come first, so that their elements can be bound anywhere."""
        body: list[Any] = []
        for name, written in (("d", "{}"), ("c", "[None, None]")):
            if self.chance(4):
                place.containers.append(name)
                body.append(Assign((Read(name),), Empty(written)))
        return body

    def function(self, name: str, place: Place, statements: int) -> tuple[Define, Signature]:
        kinds: list[Kind] = [(3, not self.below(3))]
        kinds += [self.pick([(3, False), (2, False), (3, True)]) for _ in range(self.below(2))]
        parameters = []
        for at, kind in enumerate(kinds):
            parameters.append(f"{NAMES[kind][at]}{place.suffix}")
            place.add(kind, Read(parameters[-1]))
        body = self.block(place, statements)
        results = 1 + self.chance(4)
        values = tuple(self.returned(place) for _ in range(results))
        body.append(Return(values[0] if results == 1 else Group(values)))
        return Define(name, tuple(parameters), tuple(body)), Signature(name, tuple(kinds), results)

    def returned(self, place: Place) -> Any:
        """What a function returns may be written by whoever gets it: a new tensor, or one that may be written here."""
        names = place.all((3, False))
        return self.pick(names) if names and self.chance(2) else self.fresh(place, 3, 2)

    def output(self, place: Place) -> Any:
        """A weighted sum of several variables, so that no gradient is a round number."""
        every = [(size, name) for (size, _), names in place.bound.items() for name in names]
        terms = []
        for _ in range(min(len(every), 3 + self.below(6))):
            size, name = every.pop(self.below(len(every)))
            whole = Apply("sum", Arithmetic("*", name, Weights(size))) if size else name
            terms.append(Arithmetic("*", whole, self.number(place)))
        result = terms[0]
        for term in terms[1:]:
            result = Arithmetic("+", result, term)
        return result

    # statements

    def block(self, place: Place, count: int) -> list[Any]:
        body: list[Any] = []
        while len(body) < count:
            body += self.statement(place)
        return body

    def statement(self, place: Place) -> list[Any]:
        place.may_write = self.chance(5)
        choices = [self.assignment, self.write, self.view, self.write, self.assignment, self.alias, self.chained]
        choices += [self.several, self.starred, self.element, self.listed, self.call, self.call, self.deletion]
        if place.depth < 2:
            choices += [self.repeat, self.each, self.branch]
        if not place.is_inner and place.depth == 0:
            choices += [self.inner, self.arrow]
        made = self.pick(choices)(place)
        return made if made else self.assignment(place)

    def assignment(self, place: Place) -> list[Any]:
        kind = self.kind()
        value = self.bindable(place, kind)
        return [Assign((self.target(place, kind),), value)]

    def kind(self) -> Kind:
        return self.pick([(3, False), (3, False), (3, True), (2, False), (0, False), (0, True), (2, True)])

    def target(self, place: Place, kind: Kind) -> Any:
        target = Read(self.pick(NAMES[kind]) + place.suffix)
        place.add(kind, target)
        return target

    def bindable(self, place: Place, kind: Kind) -> Any:
        """A value for a variable of this kind; one that its operation saves is no value for what is to be written."""
        size, is_steady = kind
        value = self.fresh(place, size, 2)
        if isinstance(value, Apply) and value.function in ("tanh", "exp") and not is_steady and not self.is_careless:
            return Arithmetic("*", value, Number(0.8))
        return value

    def alias(self, place: Place) -> list[Any]:
        kind = self.kind()
        if not place.all(kind):
            return []
        value = self.pick(place.all(kind))
        if kind[0] == 3 and self.chance(4):
            value = Apply("contiguous", value)
        return [Assign((self.target(place, kind),), value)]

    def chained(self, place: Place) -> list[Any]:
        """``a = b = …``, sometimes with an element among the targets."""
        kind = self.kind()
        value = self.bindable(place, kind)
        targets, written = [self.target(place, kind)], place.all((3, False))
        if kind == (0, False) and written and self.chance(2):
            targets.append(View(self.pick(written), self.pick(INDEXES[3, 0])))
        else:
            targets.append(self.target(place, kind))
        return [Assign(tuple(targets), value)]

    def several(self, place: Place) -> list[Any]:
        """Tuple targets: of a tuple, of a list, of a tensor's elements."""
        way = self.below(3)
        if way == 2 and place.all((3, True)):
            value = self.pick(place.all((3, True)))
            return [Assign((Group(tuple(self.target(place, (0, True)) for _ in range(3))),), value)]
        if way == 1:
            value = self.comprehension(place)
            kinds = [(3, False), (3, False)]
        else:
            kinds = [self.kind(), self.kind()]
            value = Group(tuple(self.bindable(place, kind) for kind in kinds))
        return [Assign((Group(tuple(self.target(place, kind) for kind in kinds)),), value)]

    def starred(self, place: Place) -> list[Any]:
        """``a, *b = …``; a list of two, so that both of its elements are always there."""
        first, name = self.kind(), f"rest{place.suffix}"
        kinds = [first, (3, False), (3, False)]
        if is_last := self.chance(3):
            kinds.reverse()
        values = tuple(self.bindable(place, kind) for kind in kinds)
        targets = (self.target(place, first), Star(name))
        self.add_list(place, name)
        return [Assign((Group(targets[::-1] if is_last else targets),), Group(values))]

    def add_list(self, place: Place, name: str) -> None:
        for at in range(2):
            place.add((3, False), Element(name, at))

    def element(self, place: Place) -> list[Any]:
        if not place.containers or place.is_inner:
            return []
        owner = self.pick(place.containers)
        target = Element(owner, self.pick(("k", "j") if owner == "d" else (0, 1)))
        names = place.all((3, False))
        if target in names and self.chance(3):
            return [Augment(target, "*", self.number(place))]
        value = self.pick(names) if names and self.chance(3) else self.bindable(place, (3, False))
        place.add((3, False), target)
        return [Assign((target,), value)]

    def listed(self, place: Place) -> list[Any]:
        value = self.comprehension(place)
        self.add_list(place, f"ts{place.suffix}")
        return [Assign((Read(f"ts{place.suffix}"),), value)]

    def call(self, place: Place) -> list[Any]:
        """A call of a function of the program, for its result or for what it writes."""
        signature = self.pick(place.functions) if place.functions else None
        if signature is None:
            return []
        value = self.called(place, signature)
        if self.chance(4):
            return [Do(value)]
        targets = tuple(self.target(place, (3, False)) for _ in range(signature.results))
        return [Assign((targets[0] if len(targets) == 1 else Group(targets),), value)]

    def deletion(self, place: Place) -> list[Any]:
        """``del`` of what no loop and no inner function will ask for again."""
        names = [name for name in place.bound[2, False] if isinstance(name, Read)]
        if not names or place.depth or place.has_closures:
            return []
        name = self.pick(names)
        place.bound[2, False].remove(name)
        return [Delete(name.name)]

    def view(self, place: Place) -> list[Any]:
        is_steady = self.chance(4)
        whole, part = self.pick([(3, 2), (3, 2), (3, 0), (2, 0), (2, 2), (3, 3)])
        if not place.all((whole, is_steady)):
            return []
        value = View(self.pick(place.all((whole, is_steady))), self.pick(INDEXES[whole, part]))
        return [Assign((self.target(place, (part, is_steady)),), value)]

    def write(self, place: Place) -> list[Any]:
        """A statement that writes in place."""
        sizes = [size for size in (3, 2, 0) if place.all((size, False))]
        if not sizes:
            return []
        size = self.pick(sizes)
        way = self.below(4)
        if way == 0:
            own = [name for name in place.bound[size, False] if isinstance(name, Read)]
            if own:  # += makes a name a local, so it must be one
                return [Augment(self.pick(own), *self.change(place, size))]
        target = self.pick(place.all((size, False)))
        if way < 3 and size:
            whole, part = self.pick([pair for pair in INDEXES if pair[0] == size])
            indexed = View(target, self.pick(INDEXES[whole, part]))
            if way == 1:
                return [Augment(indexed, *self.change(place, part))]
            return [Assign((indexed,), self.number(place) if self.chance(3) else self.fresh(place, part, 1))]
        return [Do(self.written(place, target, size))]

    def change(self, place: Place, size: int) -> tuple[str, Any]:
        """The operator and operand of an augmented assignment; operands are new, for memory may not overlap."""
        operator = self.pick(["*", "+", "-", "/"])
        if operator == "/":
            return operator, Number(1.6)
        if operator == "*" and self.chance(2):
            return operator, self.fresh(place, self.pick([size, 0]), 1)
        return operator, self.number(place) if operator == "*" else self.operand(place, size)

    def operand(self, place: Place, size: int) -> Any:
        """What is added or subtracted in place: saved by nothing, so any whole vector will do."""
        names = place.all((3, False)) + place.all((3, True))
        whole = size == 3 and names and self.chance(3)
        return self.pick(names) if whole else self.fresh(place, self.pick([size, 0]), 1)

    def written(self, place: Place, target: Any, size: int) -> Write:
        method = self.pick(["mul_", "add_", "sub_", "div_", "sin_", "cos_", "neg_", "copy_", "zero_"])
        if method in ("sin_", "cos_", "neg_", "zero_"):
            return Write(target, method)
        if method == "div_":
            return Write(target, method, Number(1.4))
        if method == "copy_":
            return Write(target, method, self.fresh(place, size, 1))
        if method == "mul_":
            return Write(target, method, self.number(place))
        return Write(target, method, self.operand(place, size))

    def repeat(self, place: Place) -> list[Any]:
        counter = f"{'ij'[place.depth]}{place.suffix}"
        times = 2 + self.chance(3)
        place.counters.append(counter)
        body = self.nested(place, 1 + self.below(3))
        place.counters.remove(counter)
        return [Repeat(counter, times, body, self.chance(2))]

    def each(self, place: Place) -> list[Any]:
        names = place.all((3, False))
        if not names:
            return []
        items = tuple(self.pick(names) for _ in range(2))
        return [Each(self.target(place, (3, False)).name, items, self.nested(place, 1 + self.below(3)))]

    def branch(self, place: Place) -> list[Any]:
        """What a branch binds may be unbound after it."""
        counter = self.pick(place.counters) if place.counters else ""
        equals, bodies = self.below(2), []
        for _ in range(2):
            saved = place.saved()
            bodies.append(self.nested(place, 1 + self.below(2)))
            place.bound = saved
        return [If(counter, equals, bodies[0], bodies[1] if self.chance(2) else ())]

    def nested(self, place: Place, count: int) -> tuple[Any, ...]:
        place.depth += 1
        body = self.block(place, count)
        place.depth -= 1
        return tuple(body)

    def inner(self, place: Place) -> list[Any]:
        """A function defined inside, which reads and writes what is around it."""
        around = {kind: list(names) for kind, names in place.bound.items()}
        inside = Place("1", around=around, functions=list(place.functions), is_inner=True, depth=1)
        define, signature = self.function(f"inner{len(place.functions)}", inside, 1 + self.below(2))
        place.functions.append(signature)
        place.has_closures = True
        return [define, *self.call(place)]

    def arrow(self, place: Place) -> list[Any]:
        """A lambda, which may return its argument, written or not."""
        inside = Place("1", around=place.saved(), functions=[], is_inner=True, may_bind=False)
        parameter = Read("u1")
        inside.add((3, False), parameter)
        inside.may_write = False
        body = self.written(inside, parameter, 3) if self.chance(2) else self.fresh(inside, 3, 2)
        name = f"arrow{len(place.functions)}"
        place.functions.append(Signature(name, ((3, False),), 1))
        place.has_closures = True
        return [Assign((Read(name),), Lambda("u1", body)), *self.call(place)]

    # expressions

    def number(self, place: Place) -> Any:
        return Scaled(self.pick(place.counters)) if place.counters and self.chance(3) else Number(self.pick(NUMBERS))

    def fresh(self, place: Place, size: int, depth: int) -> Any:
        """An expression whose value is a new tensor of this size, and which saves nothing that may be written."""
        ways: list[Callable[[], Any]] = [
            lambda: Arithmetic("*", self.atom(place, size, depth), self.number(place)),
            lambda: self.added(place, size, depth),
            lambda: Apply(self.pick(["sin", "cos", "tanh"]), self.safe(place, size, depth), self.chance(2)),
            lambda: Arithmetic("*", self.safe(place, size, depth), self.safe(place, self.pick([size, 0]), depth)),
            lambda: self.quotient(place, size, depth),
            lambda: self.exponential(place, size, depth),
            lambda: self.square(place, size),
            lambda: Arithmetic(self.pick(["+", "-"]), self.number(place), self.atom(place, size, depth)),
            lambda: Apply("clone", self.atom(place, size, depth)),
        ]
        if size == 3 and depth > 0:
            ways.append(lambda: Total(self.comprehension(place)))
        if size == 0:
            ways.append(lambda: Apply("sum", self.atom(place, self.pick([3, 2]), depth - 1)))
        return self.pick(ways)()

    def added(self, place: Place, size: int, depth: int) -> Any:
        sizes = self.pick([(size, size), (size, 0), (0, size)])  # the left is drawn first, as it is evaluated first
        return Arithmetic(self.pick(["+", "-"]), *[self.atom(place, side, depth) for side in sizes])

    def square(self, place: Place, size: int) -> Any:
        """The same object on both sides of an operation."""
        names = place.all((size, True))
        if not names or self.is_careless:
            names = names + place.all((size, False))
            return Arithmetic("*", self.pick(names), self.pick(names)) if self.is_careless and names else (
                Arithmetic("+", *[self.atom(place, size, 0)] * 2)
            )  # fmt: skip
        name = self.pick(names)
        return Arithmetic("*", name, name)

    def quotient(self, place: Place, size: int, depth: int) -> Any:
        above, below = self.safe(place, size, depth), self.square(place, size)
        positive = Apply("sin", below, False) if below.operator == "+" else Apply("tanh", below, False)
        return Arithmetic("/", above, Arithmetic("+", Number(2.0), positive))

    def exponential(self, place: Place, size: int, depth: int) -> Any:
        return Apply("exp", Arithmetic("*", Apply("sin", self.safe(place, size, depth), False), Number(0.3)), False)

    def safe(self, place: Place, size: int, depth: int) -> Any:
        """An operand that its operation may save."""
        names = place.all((size, True))
        if self.is_careless:
            return self.atom(place, size, depth)
        if names and (depth <= 0 or self.chance(2)):
            return self.pick(names)
        if depth > 0:
            return self.fresh(place, size, depth - 1)
        return Arithmetic("*", self.atom(place, size, 0), self.number(place))

    def atom(self, place: Place, size: int, depth: int) -> Any:
        """Any operand of this size: a variable, a view of one, or something that has effects besides."""
        names = place.all((size, False)) + place.all((size, True))
        way = self.below(12)
        if depth > 0 and way > 5:
            if way == 11 and place.may_bind:
                value = self.bindable(place, (size, False))
                return Walrus(self.target(place, (size, False)).name, value)
            if way == 10 and place.may_write and place.all((size, False)):
                place.may_write = False
                return self.written(place, self.pick(place.all((size, False))), size)
            single = [known for known in place.functions if known.results == 1]
            if way == 9 and size == 3 and single and not place.may_write:
                return self.called(place, self.pick(single))
            return self.fresh(place, size, depth - 1)
        if names and way < 5:
            return self.pick(names)
        return self.part(place, size, names)

    def part(self, place: Place, size: int, names: list[Any]) -> Any:
        """A view that is never named, where there is something to view."""
        wholes = [(whole, name) for whole in (3, 2) if (whole, size) in INDEXES and whole > size
                  for name in place.all((whole, False)) + place.all((whole, True))]  # fmt: skip
        if size == 3 or (names and not wholes):
            return self.pick(names)
        whole, name = self.pick(wholes)
        return View(name, self.pick(INDEXES[whole, size]))

    def called(self, place: Place, signature: Signature) -> Call:
        place.may_write = False
        arguments = []
        for size, is_steady in signature.parameters:
            names = place.all((size, is_steady))
            arguments.append(self.pick(names) if names and not self.chance(3) else self.fresh(place, size, 0))
        return Call(signature.name, tuple(arguments))

    def comprehension(self, place: Place) -> Comprehension:
        """A list of two, of a function of two variables."""
        names = place.all((3, False)) + place.all((3, True))
        items = tuple(self.pick(names) for _ in range(2))
        inside = Place(place.suffix, around={kind: place.all(kind) for kind in NAMES}, may_bind=False)
        inside.functions, inside.counters = place.functions, place.counters
        inside.bound[3, False].append(Read(f"t{place.suffix}"))
        if place.functions and self.chance(4):
            single = [known for known in place.functions if known.results == 1 and known.parameters == ((3, False),)]
            items = tuple(self.pick(place.all((3, False)) or names) for _ in range(2))
            if single and place.all((3, False)):
                place.may_write = False
                element = Call(self.pick(single).name, (Read(f"t{place.suffix}"),))
                return Comprehension(element, f"t{place.suffix}", items)
        element = Arithmetic("*", Read(f"t{place.suffix}"), self.number(place))
        if self.chance(2):
            element = Arithmetic("+", element, self.fresh(inside, 3, 0))
        return Comprehension(element, f"t{place.suffix}", items)


def generate(below: Callable[[int], int]) -> Program:
    return Generator(below).program()


# the verdict


class Discarded(Exception):
    """PyTorch itself cannot differentiate this program, or its values are too large for differences."""


@dataclass
class Tally:
    """What was seen over many programs."""

    run: int = 0
    discarded: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    names: int = 0

    def __str__(self) -> str:
        dropped = ", ".join(f"{count} {why}" for why, count in self.discarded.items()) or "none"
        entries = ", ".join(f"{count} {status}" for status, count in self.statuses.items())
        return f"{self.run} programs run ({dropped} discarded), {self.names} names, entries: {entries}"


class _Loader(importlib.machinery.SourceFileLoader):
    """Imports a file once: there is no use for its bytecode."""

    def set_data(self, path: Any, data: Any, *, _mode: int = 0o666) -> None:
        """Write nothing."""


def load(source: str, folder: Path, number: int) -> Callable[..., Any]:
    """The function ``f`` of this source, imported from a file of its own."""
    path = folder / f"program_{number}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_loader(path.stem, _Loader(path.stem, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


def check(program: Program, folder: Path, tally: Tally) -> None:
    """Compare a probe of this program with the oracle. Raises AssertionError, or Discarded before a comparison."""
    tally.run += 1
    function = load(program.source, folder, tally.run)
    try:
        _check(program, function, tally)
    except Discarded as why:
        tally.discarded[str(why)] += 1
        raise
    except Exception as error:
        if not isinstance(error, AssertionError):  # whose text holds the program
            error.add_note(program.source)
        raise
    finally:
        (folder / f"program_{tally.run}.py").unlink()


def _check(program: Program, function: Callable[..., Any], tally: Tally) -> None:
    arguments = [torch.tensor(v, dtype=torch.float64) for v, _ in zip(ARGUMENTS, program.main.parameters, strict=False)]
    output = _plainly(function, arguments)
    oracle = Interpreter()
    expected = oracle.run(program)
    if not oracle.largest < LARGEST:
        raise Discarded("too large")
    assert np.allclose(output, expected[0], 1e-9, 1e-12), f"the oracle is wrong\n{program.source}"
    recording = bp.probe(function)(*[argument.clone() for argument in arguments])
    entries = compare_names(program, oracle.bindings, recording)
    sizes = {b.moment: b.value.size for b in oracle.bindings if b.moment is not None}
    numeric = differences(program, sizes)
    for binding in oracle.bindings:
        if binding.moment is not None:
            compare_gradient(program, binding, entries[binding.name], numeric[binding.moment])
    tally.names += len(oracle.bindings)
    tally.statuses.update(entry.status for entry in recording.values())


def _plainly(function: Callable[..., Any], arguments: Sequence[torch.Tensor]) -> float:
    """Run the program without a probe. Raises Discarded where PyTorch refuses the backward pass."""
    leaves = [argument.clone().requires_grad_() for argument in arguments]
    output = function(*[leaf.clone() for leaf in leaves])
    try:
        output.backward()
    except RuntimeError as error:
        if "modified by an inplace operation" in str(error):
            raise Discarded("refused by PyTorch") from None
        raise
    return output.item()


def compare_names(program: Program, bindings: Sequence[Binding], recording: Any) -> dict[str, Any]:
    """Every binding has its entry with its value, the names of one object share one, and there is no other name."""
    entries, by_moment = {}, {}
    for binding in bindings:
        try:
            entry = entries[binding.name] = recording[binding.name]
        except KeyError as error:
            raise AssertionError(f"{binding.name} is missing: {error}\n{program.source}") from error
        if binding.moment is None:
            assert (entry.status, entry.value) == ("not_tensor", binding.value), f"{binding}\n{program.source}"
            continue
        assert by_moment.setdefault(binding.moment, entry) is entry, (
            f"{binding.name} is another entry, {entry.name}, than {by_moment[binding.moment].name}\n{program.source}"
        )
        same = entry.shape == binding.shape and np.allclose(entry.value.detach().numpy(), binding.value, 1e-9, 1e-12)
        assert same, f"{binding.name} has value\n{entry.value}\nand not\n{binding.value}\n{program.source}"
    assert len({id(entry) for entry in by_moment.values()}) == len(by_moment), f"values in one\n{program.source}"
    known = sum(1 + len(entry.aliases) for entry in recording.values())
    names = [name for entry in recording.values() for name in (entry.name, *entry.aliases)]
    assert known == len(bindings), f"{sorted(names)}\nand not\n{sorted(entries)}\n{program.source}"
    return entries


def compare_gradient(program: Program, binding: Binding, entry: Any, numeric: np.ndarray) -> None:
    """A gradient is the difference quotient, to the accuracy of one; what is not connected changes nothing at all."""
    numeric = numeric.reshape(binding.shape)
    if entry.status == "not_connected":
        agrees, found = not numeric.any(), "not_connected"
    elif entry.status == "ok":
        agrees, found = np.allclose(entry.grad.numpy(), numeric, RTOL, ATOL), entry.grad.numpy()
    else:
        agrees, found = False, f"{entry.status}: {entry.reason}"
    assert agrees, f"{binding.name} has gradient\n{found}\nand not\n{numeric}\n{program.source}"


def main(count: int, seed: str = "0") -> int:
    """Run many programs and say what came of it; the number of failures."""
    tally, failures, begun = Tally(), [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for at in range(count):
            try:
                check(generate(random.Random(f"{seed}:{at}").randrange), Path(folder), tally)
            except Discarded:
                pass
            except Exception as error:  # noqa: BLE001 - what a program raises is a finding like any other
                notes = "\n".join(getattr(error, "__notes__", ()))
                failures.append(f"{seed}:{at}: {type(error).__name__}: {error}\n{notes}")
            if (at + 1) % 1000 == 0:
                print(f"{at + 1}/{count}, {len(failures)} failures, {time.monotonic() - begun:.0f} s", flush=True)
    for failure in sorted(failures, key=len)[:5]:
        print(failure)
    print(f"{tally}; {len(failures)} failures")
    return len(failures)


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, *sys.argv[2:3])))
