"""The oracle: runs a program's text in NumPy."""

import ast
import operator
from collections import ChainMap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from random_programs.memory import Memory, Nudges, Tensor, plain
from random_programs.names import Names, Scope

ARGUMENTS = ((0.31, -0.83, 1.13), (-0.57, 0.92, 0.44), (1.07, 0.23, -0.68))
OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Eq: operator.eq,
    ast.Lt: operator.lt,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "exp": np.exp,
    "neg": np.negative,
    "clone": np.positive,
    "sum": lambda value: value.sum(axis=1, keepdims=True),
    "zero": np.zeros_like,
    "copy": lambda old, new: new,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
}


@dataclass(frozen=True)
class Function:
    """A function, and the values around it."""

    name: str
    parameters: ast.arguments
    body: Sequence[ast.stmt]
    around: ChainMap[str, Any]


class Interpreter:
    """Runs a program once for every row of the arrays, each row with its own nudges."""

    def __init__(self, nudges: Nudges | None = None, rows: int = 1) -> None:
        self.memory, self.names = Memory(nudges or {}, rows), Names()

    def run(self, program: str) -> np.ndarray:
        """What ``f`` returns, a number per row."""
        module = ChainMap[str, Any]({"range": range})
        module["sum"] = lambda items: reduce(partial(self.combined, operator.add), items, 0)
        for node in ast.parse(program).body:
            match node:
                case ast.FunctionDef(name, parameters, body):
                    module[name] = Function(name, parameters, body, module)
                case ast.Assign([ast.Name(name)], ast.Call(_, [vector])):  # W = torch.tensor([…])
                    module[name] = self.memory.made(np.array([ast.literal_eval(vector)]))
        main = module["f"]
        arguments = [self.memory.made(np.array([values])) for values in ARGUMENTS[: len(main.parameters.args)]]
        with np.errstate(all="ignore"):  # a value that grows beyond all bounds shows in ``largest``
            return self.enter(main, "", arguments).value[:, 0]

    def enter(self, function: Function, path: str, arguments: Sequence[Any]) -> Any:
        scope = Scope(path, function.around.new_child())
        self.names.active.append(scope)
        for parameter, argument in zip(function.parameters.args, arguments, strict=True):
            self.assign(scope, ast.Name(parameter.arg), argument)
        result = self.execute(scope, function.body)
        self.names.bind(scope, "return", result)
        self.names.active.remove(scope)
        return result

    def execute(self, scope: Scope, body: Sequence[ast.stmt]) -> Any:
        """Run statements; what the last of them returns, if it is a ``return``."""
        result = None
        for statement in body:
            result = self.statement(scope, statement)
            self.names.settle()
        return result

    def statement(self, scope: Scope, node: ast.stmt) -> Any:
        match node:
            case ast.Assign(targets, value):
                found = self.value(scope, value)
                for target in targets:
                    self.assign(scope, target, found)
            case ast.AugAssign(target, sign, value):
                # whose element it is, is settled before the operand, which may bind the owner's name anew
                owner = self.value(scope, target.value) if isinstance(target, ast.Subscript) else None
                held = self.value(scope, target)
                found = self.combined(OPERATORS[type(sign)], held, self.value(scope, value))
                if isinstance(held, Tensor):
                    self.memory.written(held, found.value)
                self.assign(scope, target, held if isinstance(held, Tensor) else found, owner)
            case ast.Expr(value):
                self.value(scope, value)
            case ast.For(target, items, body):
                for item in self.value(scope, items):
                    self.assign(scope, target, item)
                    self.execute(scope, body)
            case ast.While(test, body):
                while self.value(scope, test):
                    self.execute(scope, body)
            case ast.If(test, body, otherwise):
                self.execute(scope, body if self.value(scope, test) else otherwise)
            case ast.Delete([ast.Name(name)]):
                del scope.values[name], scope.named[name]
            case ast.FunctionDef(name, parameters, body):
                scope.values[name] = Function(name, parameters, body, scope.values)
            case ast.Return(value):
                return self.value(scope, value)
            case _:
                raise NotImplementedError(ast.unparse(node))
        return None

    def assign(self, scope: Scope, target: ast.expr, value: Any, settled: Any = None) -> None:
        match target:
            case ast.Name(name):
                scope.values[name] = value
                self.names.bind(scope, name, value)
            case ast.Subscript(owner, index):
                held, at = self.value(scope, owner) if settled is None else settled, self.value(scope, index)
                if isinstance(held, Tensor):
                    self.memory.stored(held, at, value)
                else:
                    held[at] = value
                    self.names.bind(scope, ast.unparse(target), value)
            case ast.Tuple(targets):
                self.unpack(scope, targets, value)
            case _:
                raise NotImplementedError(ast.unparse(target))

    def unpack(self, scope: Scope, targets: Sequence[ast.expr], value: Any) -> None:
        if isinstance(value, Tensor):
            value = [self.memory.viewed(value, at) for at in range(len(value.positions))]
        values = list(value)
        for at, target in enumerate(targets):
            if isinstance(target, ast.Starred):
                end = at + len(values) - len(targets) + 1
                values[at:end] = [values[at:end]]
                target = target.value
            self.assign(scope, target, values[at])

    def value(self, scope: Scope, node: Any) -> Any:
        match node:
            case ast.Constant() | ast.UnaryOp() | ast.Dict([], []):
                return ast.literal_eval(node)
            case ast.Name(name):
                return scope.values[name]
            case ast.Subscript(owner, index):
                held, at = self.value(scope, owner), self.value(scope, index)
                return self.memory.viewed(held, at) if isinstance(held, Tensor) else held[at]
            case ast.Slice(start, stop, step):
                return slice(*(part and ast.literal_eval(part) for part in (start, stop, step)))
            case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]):
                return self.combined(OPERATORS[type(sign)], self.value(scope, left), self.value(scope, right))
            case ast.NamedExpr(target, value):
                found = self.value(scope, value)
                self.assign(scope, target, found)
                return found
            case ast.Tuple(items) | ast.List(items):
                return [self.value(scope, item) for item in items]
            case ast.Lambda(parameters, body):
                return Function("<lambda>", parameters, [ast.Return(body)], scope.values)
            case ast.ListComp(element, [ast.comprehension(ast.Name(name), items, [])]):
                results = []
                for item in self.value(scope, items):
                    self.assign(scope, ast.Name(name), item)
                    results.append(self.value(scope, element))
                del scope.values[name], scope.named[name]  # the comprehension's own, though its count goes on
                return results
            case ast.Call(function, arguments, []):
                return self.called(scope, function, arguments)
        raise NotImplementedError(ast.unparse(node))

    def combined(self, combine: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        tensors = [side for side in (left, right) if isinstance(side, Tensor)]
        found = combine(plain(left), plain(right))
        return self.memory.made(found, all(tensor.is_scalar for tensor in tensors)) if tensors else found

    def called(self, scope: Scope, function: ast.expr, arguments: Sequence[ast.expr]) -> Any:
        if isinstance(function, ast.Attribute):
            operands = arguments if ast.unparse(function.value) == "torch" else [function.value, *arguments]
            return self.applied(function.attr, *[self.value(scope, operand) for operand in operands])
        known, values = self.value(scope, function), [self.value(scope, argument) for argument in arguments]
        if not isinstance(known, Function):
            return known(*values)
        path = f"{scope.path}/{known.name}#{scope.entered[known.name]}"
        scope.entered[known.name] += 1
        return self.enter(known, path, values)

    def applied(self, name: str, tensor: Tensor, *operands: Any) -> Tensor:
        """An operation of PyTorch, from the module or as a method."""
        if name == "contiguous":  # the very object: only whole vectors are asked
            return tensor
        found = FUNCTIONS[name.removesuffix("_")](tensor.value, *map(plain, operands))
        if not name.endswith("_"):
            return self.memory.made(found, tensor.is_scalar or name == "sum")
        self.memory.written(tensor, found)
        return tensor
