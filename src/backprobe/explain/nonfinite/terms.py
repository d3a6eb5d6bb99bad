"""Terms: the expression of a line as a tree of operations over recorded values, constants and unknown names."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backprobe.cuts.operation_names import MODULES
from backprobe.cuts.parsed import parsed_expression
from backprobe.explain.nonfinite.statements import is_dotted
from backprobe.source.sites import operation as operation_of

ALSO = {
    **dict.fromkeys(("realdiv", "true_divide", "divide", "truediv", "div_no_nan"), "div"),
    **dict.fromkeys(("addv2", "biasadd"), "add"),
    "multiply": "mul",
    "subtract": "sub",
    "negative": "neg",
    **dict.fromkeys(("absolute", "complexabs"), "abs"),
    **dict.fromkeys(("power", "powtensorself", "powtensortensor", "float_power"), "pow"),
    **dict.fromkeys(("mod", "fmod"), "remainder"),
    **dict.fromkeys(("batchmatmulv2", "batchmatmul", "mm", "bmm", "dot", "mv"), "matmul"),
    "softmaxbackward": "softmax",
    "logsoftmax": "log_softmax",
    "euclideandist": "cdist",
    **dict.fromkeys(("linalgvectornorm", "vector_norm", "euclidean_norm"), "norm"),
    "arccos": "acos",
    "arcsin": "asin",
    "arctanh": "atanh",
    "arccosh": "acosh",
    "arctan": "atan",
    "arctan2": "atan2",
    "logsigmoid": "log_sigmoid",
    **dict.fromkeys(("expit", "logistic"), "sigmoid"),
    "std_dev": "std",
    "variance": "var",
    **dict.fromkeys(("selectv2", "select"), "where"),
    "greater": "gt",
    **dict.fromkeys(("greaterequal", "greater_equal"), "ge"),
    "less": "lt",
    **dict.fromkeys(("lessequal", "less_equal"), "le"),
    "not_equal": "ne",
    "equal": "eq",
    **dict.fromkeys(("logicalnot", "logical_not"), "invert"),
    **dict.fromkeys(("logicaland", "logical_and"), "and"),
    **dict.fromkeys(("logicalor", "logical_or"), "or"),
    **dict.fromkeys(("clip", "clip_by_value", "clamp_min", "clipbyvalue"), "clamp"),
    "reduceprod": "prod",
    "broadcastto": "broadcast_to",
    **dict.fromkeys(("concat", "concatenate", "concatv2"), "cat"),
    "diag_part": "diagonal",
    "squareddifference": "squared_difference",
    "cross_entropy_loss": "cross_entropy",
    "nllloss": "nll_loss",
}
"""For names of operations in frameworks, in lower case and without prefix, the name used here if it is another."""

FAMILIES = ("special", "linalg")
"""Prefixes in autograd's operation names for functions that programs call through a submodule."""
WORDS = {"axis": "dim", "keepdims": "keepdim", "unbiased": "correction", "ddof": "correction"}
"""For names of keyword arguments in frameworks, the name used here if it is another."""
FIRST = ("input", "x", "a", "self", "input_tensor", "logits", "tensor", "value", "features", "y")
"""Keyword names of the first operand."""
NUMBERS = {"inf": math.inf, "infty": math.inf, "infinity": math.inf, "nan": math.nan, "pi": math.pi, "e": math.e}
DTYPES = frozenset({"float16", "float32", "float64", "int32", "int64", "bool"})
ATTRIBUTES = frozenset({"T", "mT", "real", "imag", "data", "shape", "size", "ndim"})
UPDATES = {"set": "", "add": "add", "subtract": "sub", "multiply": "mul", "mul": "mul", "divide": "div", "power": "pow"}
"""The methods of JAX's ``x.at[index]``, and the operation that each computes; empty for a plain write."""
LAYERS = frozenset({"Sigmoid", "Softmax", "LogSoftmax", "LogSigmoid", "Softplus", "Tanh", "ReLU"})
"""Classes of layers that are a single operation."""
DRAWING = re.compile(r"\b(?:rand\w*|normal|uniform|bernoulli|multinomial|poisson|r?sample|dropout\w*)\s*\(", re.I)
"""Matches calls that draw random numbers: evaluated a second time, such a call returns other numbers."""


def known_as(op: str) -> str:
    """Return the name that an operation has here.

    >>> known_as("reduce_sum"), known_as("sqrt_"), known_as("RealDiv"), known_as("LinalgEigh")
    ('sum', 'sqrt', 'div', 'eigh')
    """
    op = op.lower().rstrip("_").removeprefix("reduce_")
    op = ALSO.get(op) or next((op.removeprefix(one) for one in FAMILIES if op.startswith(one) and op != one), op)
    return ALSO.get(op, op)


@dataclass(frozen=True, eq=False)
class Term:
    """An operation on other terms, as the program spells it; a leaf if ``op`` is empty.

    ``at`` is the entry that holds the term's value. A leaf without an entry is a ``constant`` or an unknown name.
    """

    op: str = ""
    args: tuple[Term, ...] = ()
    keywords: Mapping[str, Term] = field(default_factory=dict)
    text: str = ""
    at: int | None = None
    constant: Any = None
    is_constant: bool = False
    before: str = ""  # the layer, if this is the input of a layer inside a model

    @property
    def inputs(self) -> Sequence[Term]:
        """The operands of the term, including keyword arguments."""
        return [*self.args, *self.keywords.values()]

    @property
    def is_unknown(self) -> bool:
        return not (self.op or self.is_constant) and self.at is None

    def __iter__(self) -> Iterator[Term]:
        """Yield this term and all terms inside it, operands before operations."""
        for one in self.inputs:
            yield from one
        yield self

    def leaves(self) -> set[int]:
        """The entries that the term is computed from."""
        return {one.at for one in self if one.at is not None and one is not self}


def constant(value: Any) -> Term:
    return Term(constant=value, is_constant=True, text=repr(value))


def term_of(expression: str, parts: Mapping[str, int], calls: Sequence[str] = ()) -> Term | None:
    """Return the term of an entry's expression; None if the text is not a complete expression.

    >>> str([one.op for one in term_of("torch.log(1 - h)", {"h": 0}) if one.op])
    "['sub', 'log']"
    """
    tree = parsed_expression(expression)
    return None if tree is None else _Reader(parts, calls, tree).term(tree, is_whole=True)


def written(
    target: ast.expr | None, index: ast.expr | None, value: ast.expr, parts: Mapping[str, int], calls: Sequence[str]
) -> Term:
    """The term of a value, or of writing the value into a part of ``target``."""
    reader = _Reader(parts, calls, value)
    made = reader.term(value, is_whole=True)
    if index is None or target is None:
        return made
    return Term("setitem", (reader.term(target), reader.term(index), made), text=ast.unparse(target))


class _Reader:
    # Builds terms from an expression, given the entries of its parts and the functions that the line called.
    def __init__(self, parts: Mapping[str, int], calls: Sequence[str], whole: ast.expr) -> None:
        self.parts, self.calls = parts, {known_as(_last(call)) for call in calls if call}
        orders = [dict(zip(order, calls, strict=True)) for order in _orders(whole) if len(order) == len(calls)]
        self.called = next(filter(_is_consistent, orders), {})

    def term(self, node: ast.expr, *, is_whole: bool = False) -> Term:
        text = ast.unparse(node)
        held = None if is_whole else self.parts.get(text)
        if held is None and not is_whole and isinstance(node, ast.Call):
            held = self.parts.get(f"{operation_of(node)}()")
        if held is not None:
            return Term(text=text, at=held)
        match node:
            case ast.Constant(value=value):
                return constant(value)
            case ast.UnaryOp(operand=ast.Constant(value=int() | float() as value), op=ast.USub()):
                return constant(-value)
            case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
                return self._applied(operation_of(node), [left, right], text)
            case ast.UnaryOp(operand=value):
                return self._applied(operation_of(node), [value], text)
            case ast.Subscript(value=value, slice=index):
                return self._applied("getitem", [value, index], text)
            case ast.Slice(lower=lower, upper=upper, step=step):
                nothing = ast.Constant(value=None)
                return self._applied("slice", [lower or nothing, upper or nothing, step or nothing], text)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return self._applied("tuple", elements, text)
            case ast.ListComp(elt=each, generators=[turns]) | ast.GeneratorExp(elt=each, generators=[turns]):
                return self._turns(each, turns, text)
            case ast.IfExp(test=test, body=one, orelse=other):
                return self._applied("chosen", [test, one, other], text)
            case ast.Attribute(value=value, attr=name):
                return self._attribute(value, name, text)
            case ast.Call():
                return self._call(node, text)
        return Term(text=text)

    def _applied(self, op: str, operands: Sequence[ast.expr], text: str) -> Term:
        if not op or any(isinstance(one, ast.Starred) for one in operands):
            return Term(text=text)
        return Term(known_as(op), tuple(map(self.term, operands)), text=text)

    def _turns(self, each: ast.expr, turns: ast.comprehension, text: str) -> Term:
        # Build a term for each iteration of a comprehension over recorded values or a literal ``range``. The name
        # ``v#0`` stands for the variable ``v`` in the first iteration.
        names = [node.id for node in ast.walk(turns.target) if isinstance(node, ast.Name)]
        counted = _counted(turns.iter) if isinstance(turns.target, ast.Name) and not turns.ifs else range(0)
        found = [_With(names[0], constant(number), self, each).term(each) for number in counted]
        while not turns.ifs and not counted:
            held = {name: self.parts.get(f"{name}#{len(found)}") for name in names}
            known = {name: at for name, at in held.items() if at is not None}
            if not known:
                break
            reader = _Reader({**self.parts, **known}, (), each)
            reader.calls = self.calls
            found.append(reader.term(each))
        return Term("tuple", tuple(found), text=text) if found else Term(text=text)

    def _attribute(self, value: ast.expr, name: str, text: str) -> Term:
        if (name in NUMBERS or name in DTYPES) and isinstance(value, ast.Name) and value.id in MODULES:
            return constant(NUMBERS.get(name, name))
        if name in ATTRIBUTES and text not in self.parts:
            return Term(name, (self.term(value),), text=text)
        return Term(text=text)

    def _call(self, call: ast.Call, text: str) -> Term:
        owner = [call.func.value] if isinstance(call.func, ast.Attribute) and not self._is_of_library(call) else []
        if any(word.arg is None for word in call.keywords) or any(isinstance(one, ast.Starred) for one in call.args):
            return Term(text=text)
        model, _, layer = self.called.get(call, "").partition(".")[2].partition(".")
        if layer in LAYERS and model not in LAYERS:
            return Term(known_as(layer), (Term(text=text, before=layer),), text=text)
        if is_update(call):
            return self._update(call, text)
        args = tuple(self.term(one) for one in [*owner, *call.args])
        words = {str(word.arg): self.term(word.value) for word in call.keywords}
        if not args:
            first = next((word for word in FIRST if word in words), None)
            args = () if first is None else (words.pop(first),)
        words = {WORDS.get(word, word): value for word, value in words.items() if word != "name"}
        op, args = _selecting(self._operation(call), args, is_method=bool(owner))
        return Term(op, args, words, text) if op else Term(text=text)

    def _update(self, call: ast.Call, text: str) -> Term:
        # Build the term of JAX's ``x.at[index].add(value)``: ``x`` with a part of it updated.
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Subscript(value=ast.Attribute(value=base), slice=index), attr=name),
                args=[value],
            ):
                before = self._applied("getitem", [base, index], f"{ast.unparse(base)}[{ast.unparse(index)}]")
                given, op = self.term(value), UPDATES[name]
                made = Term(op, (before, given), text=text) if op else given
                return Term("setitem", (self.term(base), self.term(index), made), text=text)
        return Term(text=text)

    def _operation(self, call: ast.Call) -> str:
        # Return the operation that a call computes; empty if the function belongs to the program, or to an unknown
        # object.
        name, made = operation_of(call), _last(self.called.get(call, ""))
        if made in LAYERS:
            return known_as(made)
        if isinstance(call.func, ast.Name) and name == "sum" and "" not in self.called.values():
            return "added"  # Python's built-in ``sum``
        if (
            isinstance(call.func, ast.Name)
            and known_as(name) not in self.calls
            and name not in ("abs", "float", "max", "min")
        ):
            return ""
        if isinstance(call.func, ast.Attribute) and not self._is_of_library(call) and is_dotted(call.func.value):
            return known_as(name) if ast.unparse(call.func.value) in self.parts else ""
        return known_as(name)

    def _is_of_library(self, call: ast.Call) -> bool:
        # Is this a function of a module such as ``torch.nn.functional``, or a layer, rather than a method of a value?
        made = self.called.get(call, "")
        if _last(made) in LAYERS:
            return True
        if not isinstance(call.func, ast.Attribute) or not is_dotted(call.func.value):
            return False
        owner = ast.unparse(call.func.value)
        is_known = owner.partition(".")[0] in MODULES or (made not in ("", "?") and bool(call.args or call.keywords))
        return is_known and owner not in self.parts


class _With(_Reader):
    # A reader that replaces one name by a constant.
    def __init__(self, name: str, value: Term, reader: _Reader, whole: ast.expr) -> None:
        super().__init__(reader.parts, (), whole)
        self.calls, self._name, self._value = reader.calls, name, value

    def term(self, node: ast.expr, *, is_whole: bool = False) -> Term:
        is_name = isinstance(node, ast.Name) and node.id == self._name
        return self._value if is_name else super().term(node, is_whole=is_whole)


def _selecting(op: str, args: tuple[Term, ...], *, is_method: bool) -> tuple[str, tuple[Term, ...]]:
    # Return ``a.where(condition, b)`` and ``b.masked_fill(condition, a)`` as ``where(condition, a, b)``.
    if op == "where" and is_method and len(args) == 3:
        return op, (args[1], args[0], args[2])
    if op == "masked_fill" and len(args) == 3:
        return "where", (args[1], args[2], args[0])
    return op, args


def is_update(node: ast.AST) -> bool:
    """Is the node an update such as JAX's ``x.at[0].set(1.0)``?"""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Subscript(value=ast.Attribute(attr="at")), attr=op), args=[_]):
            return op in UPDATES
    return False


def _counted(turns: ast.expr) -> range:
    # The numbers of a comprehension's ``range``, if they are literal; else an empty range.
    match turns:
        case ast.Call(func=ast.Name(id="range"), args=numbers, keywords=[]):
            known = [one.value for one in numbers if isinstance(one, ast.Constant) and isinstance(one.value, int)]
            return range(*known) if len(known) == len(numbers) in (1, 2) else range(0)
    return range(0)


def _last(call: str) -> str:
    # The name of a function without its module and version suffix.
    return call.rpartition(".")[2].removesuffix("_v2")


def _orders(node: ast.expr) -> list[list[ast.Call]]:
    # The calls of an expression in two possible orders: layers after or before their arguments.
    return [list(_calls(node, are_layers_last)) for are_layers_last in (True, False)]


def _calls(node: ast.AST, are_layers_last: bool) -> Iterator[ast.Call]:
    if not isinstance(node, ast.Call):
        for one in ast.iter_child_nodes(node):
            yield from _calls(one, are_layers_last)
        return
    yield from _calls(node.func, are_layers_last)
    is_last = are_layers_last and is_dotted(node.func) and _root(node) not in MODULES
    if not is_last:
        yield node
    for part in (*node.args, *node.keywords):
        yield from _calls(part, are_layers_last)
    if is_last:
        yield node


def _is_consistent(called: Mapping[ast.Call, str]) -> bool:
    # Do the recorded calls match the spelled ones? Library functions must have the same name, and layer classes are
    # called through objects of the program.
    return all(
        not (is_dotted(call.func) and _root(call) in MODULES)
        if _last(made)[:1].isupper()
        else known_as(operation_of(call)) == known_as(_last(made))
        for call, made in called.items()
        if made not in ("", "?")
    )


def _root(call: ast.Call) -> str:
    return ast.unparse(call.func).partition(".")[0]
