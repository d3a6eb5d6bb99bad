"""Reads in the text of an expression whether it removes a value from the autograd graph.

Only the text is analysed; nothing is evaluated. The known names are those of operations without a derivative in
PyTorch, TensorFlow, JAX, NumPy and Python itself.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from backprobe.cuts.operation_names import (
    ASSIGNING,
    CASTS,
    CUTTERS,
    INTEGER,
    JOINING,
    LIBRARY,
    LIKE_ARGUMENT,
    MAPPING,
    MODULES,
    NUMPY,
    OF_CONTAINERS,
    OTHER_DTYPE,
    OWN_METHODS,
    POSITIONS,
    SHAPES,
    STEPS,
    TRANSFORMING,
    WITHOUT_DERIVATIVE,
    WITHOUT_HISTORY,
)
from backprobe.cuts.parsed import last_name, own_parts_of, parsed, parts_of
from backprobe.source.syntax_nodes import is_given, parents

NAMES = (ast.Name, ast.Attribute, ast.Subscript)


@dataclass(frozen=True)
class Use:
    """One place where an expression mentions a value, and how it is used there.

    ``kind`` is the kind of operation that removes the derivative, empty if none does, and ``text`` the text of that
    operation. The kinds ``shape`` and ``differentiated`` remove nothing: the first uses no number of the value, the
    second takes a derivative of the value. ``call`` is the text of the outermost call around the value, up to the
    operation of ``kind``, and ``is_argument`` is True if the value itself is an argument of a call. ``is_conditional``
    is True if the expression may be evaluated without this place. ``flat`` is the text of a step function such as
    ``round`` around the value, whose derivative is 0 or missing, if no other operation removes the derivative.
    """

    kind: str = ""
    text: str = ""
    call: str = ""
    is_argument: bool = False
    is_conditional: bool = False
    flat: str = ""


CUTTING = re.compile(rf"\b(?:{'|'.join([*CUTTERS, *ASSIGNING, *NUMPY])})\b")


@lru_cache(16384)
def may_cut(text: str) -> bool:
    """Does a text contain a word that may remove a derivative?"""
    return CUTTING.search(text) is not None


@lru_cache(16384)
def uses(text: str, spelled: str, followed: tuple[str, ...] = ()) -> tuple[Use, ...] | None:
    """Return the places where a text uses a name; None if the name does not occur, or the text is not Python.

    ``followed`` are functions whose code is recorded too. An argument of such a function is not counted as a use.

    >>> [(use.kind, use.text) for use in uses("(u.detach() * w).sum() + u.shape[0]", "u")]
    [('shape', 'u.shape'), ('detach', 'u.detach()')]
    """
    tree = parsed(text)
    if tree is None:
        return None
    local, leaf = _divided(tree, spelled)
    places = _places(tree, local)
    if not places:
        return None
    above = parents(tree)
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = {last_name(function) for function in calls}
    library = {last_name(function) for function in calls if _root(function) in MODULES}
    # if no followed function is called by its own name, any called function may be one of them under another name
    reporting = called - library - LIBRARY if set(followed) - called else set(followed)
    found = (_use(node, leaf, above, reporting) for node in places)
    return tuple(use for use in found if use is not None)


def use_of(text: str, part: str) -> Use | None:
    """Return how a statement uses the first part with this text; None if there is none, or if its value is ignored.

    >>> use_of("h = torch.relu(self.enc(x)).detach()", "self.enc(x)").kind, use_of("self.enc(x)", "self.enc(x)")
    ('detach', None)
    """
    tree = parsed(text)
    parts = [] if tree is None else own_parts_of(tree, part)
    nodes = [node for node in parts if isinstance(getattr(node, "ctx", ast.Load()), ast.Load)]
    if tree is None or not nodes:
        return None
    above = parents(tree)
    return None if isinstance(above[nodes[0]], ast.Expr) else _use(nodes[0], "", above, ())


def as_called(use: Use, calls: Sequence[str]) -> Use:
    """Correct a use with the names of the functions that the line really called: ``np`` may be another library.

    >>> as_called(Use("numpy", "np.sign(u)"), ["jax.sign"]).kind  # import jax.numpy as np
    ''
    """
    if not use.kind and not use.flat and use.call and len(calls) == 1:
        return _by_its_own_name(use, calls[0])
    is_by_name = use.kind == "numpy" and use.text.partition(".")[0] in NUMPY
    is_other = bool(calls) and not any(call.partition(".")[0] in NUMPY for call in calls)
    return replace(use, kind="", text="") if is_by_name and is_other else use


def _by_its_own_name(use: Use, called: str) -> Use:
    # Correct the use if a library function is called by another name, such as ``f(u)`` after ``f = jnp.round``.
    package, _, name = called.rpartition(".")
    own = use.call.partition("(")[0]
    if package.partition(".")[0] not in MODULES or name == own.rpartition(".")[2]:
        return use
    if name in STEPS:
        return replace(use, flat=name + use.call[len(own) :])
    return replace(use, kind=CUTTERS.get(name, ""), text=use.call if name in CUTTERS else "")


@lru_cache(4096)
def unseen_uses(
    text: str, known: frozenset[str], library: frozenset[str], nested: bool = False
) -> tuple[tuple[str, Use], ...]:
    """Return the values in an expression that have no recorded name, each with its use.

    These are results of calls, except of functions in ``library``, and named objects such as models. Values of which
    only the shape is used are left out. A value inside another such value is listed only with ``nested``.

    >>> [(text, use.kind) for text, use in unseen_uses("net(x).detach() + torch.sin(x)", frozenset("x"), frozenset())]
    [('net(x)', 'detach')]
    """
    tree = parsed(text)
    if tree is None:
        return ()
    above = parents(tree)
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    unseen = [node for node in ast.walk(tree) if _is_unseen(node, above, known | bound, library)]
    told = [node for node in unseen if nested or not any(o is not node and _is_inside(node, o, above) for o in unseen)]
    found = [(ast.unparse(node), _use(node, "", above, ())) for node in told]
    return tuple((text, use) for text, use in found if use is not None and use.kind != "shape")


def _is_unseen(node: ast.AST, above: dict[ast.AST, ast.AST], known: frozenset[str], library: frozenset[str]) -> bool:
    # Is a node the result of a call or a named object, without being one of the known names?
    around = above.get(node)
    if isinstance(node, ast.Call):
        name = last_name(node.func)
        if f"{name}()" in known or name in library or name in LIBRARY:
            return False
        return isinstance(node.func, ast.Name) or _root(node.func) not in (*known, *MODULES, "")
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return False
    is_called = isinstance(around, ast.Call) and around.func is node
    is_owner = isinstance(around, ast.Attribute) and around.attr not in OWN_METHODS
    is_taking = isinstance(node, ast.Attribute) and node.attr in OWN_METHODS
    is_part = is_called or is_owner or is_taking or last_name(node) in SHAPES
    root = _root(node)
    return not is_part and not {ast.unparse(node), root} & known and root not in (*MODULES, *dir(builtins), "")


def _root(node: ast.AST) -> str:
    # The variable at the start of a chain of attributes and items; empty if the chain starts with anything else.
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _places(tree: ast.AST, local: str) -> Sequence[ast.AST]:
    # The places where a local is mentioned, or the calls of ``f`` if the name is ``f()``.
    if local.endswith("()"):
        return _calls(tree, local.removesuffix("()"))
    return [node for node in parts_of(tree, local, NAMES) if isinstance(node.ctx, ast.Load)]


def _calls(tree: ast.AST, function: str) -> list[ast.Call]:
    # The calls of a function. If the text has no call by this name, the only other call that can be meant, if there is
    # exactly one.
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    named = [node for node in calls if last_name(node.func) == function]
    users = [
        node
        for node in calls
        if (last_name(node.func) not in LIBRARY and _root(node.func) not in (*MODULES, ""))
        or isinstance(node.func, ast.Call)  # a call of a module that is created in the same expression: nn.Dense(3)(x)
    ]
    return named or (users if len(users) == 1 else [])


def _divided(tree: ast.AST, spelled: str) -> tuple[str, str]:
    # Split ``pair.0.hidden`` into local and leaf. An attribute in the text, as in ``self.scale``, belongs to the local.
    head, dot, rest = spelled.partition(".")
    while dot and parts_of(tree, f"{head}.{rest.partition('.')[0]}", (ast.Attribute,)):
        step, dot, rest = rest.partition(".")
        head = f"{head}.{step}"
    return head, rest


def _use(node: ast.AST, leaf: str, above: dict[ast.AST, ast.AST], followed: Collection[str]) -> Use | None:
    value, call, flat, is_conditional, steps = node, "", "", False, leaf.split(".") if leaf else []
    is_argument = is_given(node, above)
    while node in above:
        child, node = node, above[node]
        steps = [] if _cuts_all(node, child, above) else steps
        left = _left_of_leaf(node, child, steps)
        if left is None:
            return None
        if len(left) < len(steps):
            is_conditional |= isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant)
            steps = left
            continue
        is_taken = isinstance(node, ast.Call) and child is not node.func  # the value is an argument
        if is_taken and last_name(node.func) in followed:  # type: ignore[attr-defined]  # of a call
            return None
        if isinstance(node, ast.comprehension) and child is node.iter:
            return _of_items(node, _items(node.target, node.iter, value, above), above, call, is_conditional)
        kind = "copied" if is_taken and _joins(node, child, bool(steps)) else _kind(node, child)
        if isinstance(node, ast.Call):
            call = ast.unparse(node)
            steps = [] if is_taken and _root(node.func) in MODULES else steps  # functions of libraries use all items
        flat = flat or (ast.unparse(node) if flat_operation(node) else "")
        if kind:
            return _cut_by(node, Use(kind, "", call, is_argument, is_conditional), above, followed)
        is_conditional |= _may_pass_by(node, child)
    return Use(call=call, is_argument=is_argument, is_conditional=is_conditional, flat=flat)


def _cuts_all(node: ast.AST, child: ast.AST, above: dict[ast.AST, ast.AST]) -> bool:
    # Is it a method such as ``detach()`` called on the container itself, which then cuts all of its items?
    whole = above.get(node)
    is_method = isinstance(node, ast.Attribute) and isinstance(whole, ast.Call) and whole.func is node
    return is_method and _kind(node, child) in WITHOUT_HISTORY


def _may_pass_by(node: ast.AST, child: ast.AST) -> bool:
    # May the expression be evaluated without evaluating this part?
    return isinstance(node, ast.BoolOp) or (isinstance(node, ast.IfExp) and child is not node.test)


def _cut_by(node: ast.AST, use: Use, above: dict[ast.AST, ast.AST], followed: Collection[str]) -> Use:
    # The use by a cutting operation with its text, or by a later operation that cuts its result again.
    whole = above.get(node)
    text = whole if isinstance(whole, ast.Call) and whole.func is node else node
    again = _cut_again(text, above, followed) if use.kind in WITHOUT_HISTORY else None
    return again or replace(use, text=ast.unparse(text))


def _left_of_leaf(node: ast.AST, child: ast.AST, steps: list[str]) -> list[str] | None:
    # Return the rest of a leaf's path after this part of an expression. Returns None if the part takes another leaf, or
    # calls a method of the container.
    if not steps:
        return steps
    if isinstance(node, ast.Subscript) and child is node.value:
        is_it = not isinstance(node.slice, ast.Constant) or str(node.slice.value) == steps[0]
    elif isinstance(node, ast.Attribute) and node.attr not in OF_CONTAINERS | SHAPES:
        is_it = node.attr == steps[0]
    else:
        return steps
    return steps[1:] if is_it else None


def _joins(node: ast.AST, child: ast.AST, is_item: bool) -> bool:
    # Is it a call that makes one tensor from the tensors in a container?
    is_container = is_item or isinstance(child, ast.List | ast.Tuple | ast.ListComp)
    is_joining = isinstance(node, ast.Call) and last_name(node.func) in JOINING and _root(node.func) not in NUMPY
    return is_container and is_joining


def _cut_again(node: ast.AST, above: dict[ast.AST, ast.AST], followed: Collection[str]) -> Use | None:
    # Return a second cut of a value that has already lost its history: ``u.detach().item()`` is a number, with or
    # without ``detach``. Returns None if the value without history is bound to a name and may be used elsewhere.
    use, around = _use(node, "", above, followed), above.get(node)
    while around is not None and not isinstance(around, ast.NamedExpr):
        around = above.get(around)
    return use if use is not None and use.kind in WITHOUT_DERIVATIVE and around is None else None


def _items(target: ast.expr, over: ast.expr, value: ast.AST, above: dict[ast.AST, ast.AST]) -> ast.expr:
    # The part of a comprehension's target that is bound to items of the value: for ``zip``, one of ``a, b``.
    zipped = over.args if isinstance(over, ast.Call) and last_name(over.func) in ("zip", "enumerate") else []
    parts = target.elts if isinstance(target, ast.Tuple) else []
    if len(parts) == 2 and is_method(over, "items"):
        return parts[1]
    parts = parts[1:] if isinstance(over, ast.Call) and last_name(over.func) == "enumerate" else parts
    for part, given in zip(parts, zipped, strict=False):
        if _is_inside(value, given, above):
            return _items(part, given, value, above)
    return target


def _of_items(
    over: ast.comprehension, target: ast.expr, above: dict[ast.AST, ast.AST], call: str, is_conditional: bool
) -> Use:
    # Return how a comprehension uses the items of a value. The kind is empty if the uses differ in their kinds; a
    # conditional use that removes nothing is not compared.
    whole, found = above[over], _uses_of_items(over, target, above)
    firm = [use for use in found if not use.is_conditional]
    kinds = {use.kind for use in found if use.kind or use in firm}
    flats = {use.flat for use in firm}
    kind, flat = (kinds.pop() if len(kinds) == 1 else ""), (flats.pop() if len(flats) == 1 else "")
    is_conditional |= len(firm) < len(found)
    text, cutters = ast.unparse(whole), {use.text for use in found if use.kind}
    around = cutters.pop() if len(cutters) == 1 else ""  # a cutting call whose argument is the whole comprehension
    text = around if text in around else text
    return Use(kind, text if kind else "", call, False, is_conditional, "" if kind else flat)


def _uses_of_items(over: ast.comprehension, target: ast.expr, above: dict[ast.AST, ast.AST]) -> list[Use]:
    # The uses of the items in a comprehension, except uses of their shape alone.
    whole, named = above[over], {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
    items = [child for child in ast.walk(whole) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load)]
    each = [_use(node, "", above, ()) for node in items if node.id in named and not _is_inside(node, over.iter, above)]
    return [use for use in each if use is not None and use.kind != "shape"]


def is_method(node: ast.AST, name: str) -> bool:
    """Is the node a call of a method with this name, without arguments?"""
    match node:
        case ast.Call(func=ast.Attribute(attr=attribute), args=[]):
            return attribute == name
    return False


def _is_inside(node: ast.AST, part: ast.AST, above: dict[ast.AST, ast.AST]) -> bool:
    while node is not part and node in above:
        node = above[node]
    return node is part


def _kind(node: ast.AST, child: ast.AST) -> str:
    # The kind of use that an expression makes of the part that contains the value.
    match node:
        case ast.Attribute(attr=name):
            return "shape" if name in SHAPES else OTHER_DTYPE.get(name, CUTTERS.get(name, ""))
        case ast.Call() if child is not node.func or last_name(node.func) in CASTS:
            return _kind_of_call(node, child)
        case ast.Subscript(value=ast.Call(func=function), slice=ast.Constant(value=1)) if (
            last_name(function) in POSITIONS
        ):
            return "index"
        case ast.Compare(ops=operators):
            return "shape" if isinstance(operators[0], ast.Is | ast.IsNot) else "comparison"
        case ast.UnaryOp(op=ast.Not()):
            return "comparison"
    return ""


def _kind_of_call(call: ast.Call, child: ast.AST) -> str:
    function = applied(call, child)
    name, root = last_name(function), _root(function)
    of_numpy = "numpy" if root in NUMPY and child is not function else ""
    if _is_like_argument(function, child, call.args):
        return "shape"
    if name in CASTS:
        return "integer" if _makes_integers(call, child) else of_numpy
    if any(word.arg == "create_graph" and ast.unparse(word.value) != "False" for word in call.keywords):
        return "differentiated"
    if name == "grad":  # the function ``grad``; the attribute ``grad`` is in SHAPES
        return "derivative"
    if root in ("math", "cmath"):
        return "number"
    if name in OWN_METHODS and isinstance(function, ast.Attribute) and root not in MODULES:
        return ""
    if name in ASSIGNING:
        return "assigned"
    return "shape" if name in SHAPES else CUTTERS.get(name, of_numpy)


def _makes_integers(call: ast.Call, child: ast.AST) -> bool:
    # Is an integer dtype among the other arguments of a call?
    given = (*call.args, *(word.value for word in call.keywords))
    return any(INTEGER.search(ast.unparse(one)) for one in given if one is not child)


def applied(call: ast.Call, child: ast.AST) -> ast.expr:
    """Return the function that a call applies to one of its parts: inside a transformation, or mapped over items.

    >>> whole = ast.parse("jax.vmap(jnp.argmax)(u)", mode="eval").body
    >>> ast.unparse(applied(whole, whole.args[0]))
    'jnp.argmax'
    """
    function, given = call.func, call.args
    if len(given) > 1 and child is not given[0] and last_name(function) in MAPPING and isinstance(given[0], NAMES):
        return given[0]
    while isinstance(function, ast.Call) and last_name(function.func) in TRANSFORMING and function.args:
        if not isinstance(function.args[0], (ast.Call, ast.Lambda, *NAMES)):
            break
        function = function.args[0]
    return function


def _is_like_argument(function: ast.expr, child: ast.AST, given: Sequence[ast.expr]) -> bool:
    # Does a call read the dtype, device or shape of this argument, but no number of it?
    is_method = isinstance(function, ast.Attribute) and _root(function) not in MODULES
    is_first = bool(given) and child is given[0]
    return child is not function and (
        (is_method and last_name(function) in LIKE_ARGUMENT) or (last_name(function) == "full_like" and is_first)
    )


def flat_operation(node: ast.AST | None) -> str:
    """The name of the step function that an expression applies; ``//`` counts as floordiv. Empty for all others."""
    match node:
        case ast.BinOp(op=ast.FloorDiv()):
            return "floordiv"
        case ast.Call(args=given) if given and (name := last_name(applied(node, given[-1]))) in STEPS:
            return name
        case ast.Call(func=ast.Attribute(attr=name)) if name in STEPS:
            return name
    return ""
