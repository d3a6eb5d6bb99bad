"""Follows keys, items and functions through loops over dictionaries and through library calls, by their text."""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import lru_cache

from backprobe.cuts.cutting_operations import NAMES, applied, is_method
from backprobe.cuts.operation_names import MAPPING, TRANSFORMING
from backprobe.cuts.parsed import last_name, parsed, parsed_expression, parts_of


@lru_cache(4096)
def keys_bound(text: str) -> frozenset[str]:
    """Return the loop variables that hold a dictionary key or a counter, and therefore no number of the value.

    >>> sorted(keys_bound("for k, v in params.items():")), sorted(keys_bound("for i, v in enumerate(values):"))
    (['k'], ['i'])
    """
    match parsed(text):
        case ast.Module(body=[ast.For(target=ast.Tuple(elts=[ast.Name(id=name), _]), iter=over)]):
            is_counted = isinstance(over, ast.Call) and last_name(over.func) == "enumerate"
            return frozenset([name]) if is_counted or is_method(over, "items") else frozenset()
    return frozenset()


@lru_cache(4096)
def is_by_key(text: str, local: str) -> bool:
    """Is the expression a comprehension that maps a dictionary to another one, each value computed from the same key?

    >>> is_by_key("{k: 2 * v for k, v in p.items()}", "p"), is_by_key("{k: p['w'] for k, v in q.items()}", "p")
    (True, False)
    """
    match parsed_expression(text):
        case ast.DictComp(key=ast.Name(id=key), value=value, generators=[turns]):
            names = turns.target.elts if isinstance(turns.target, ast.Tuple) else []
            is_same = bool(names) and isinstance(names[0], ast.Name) and names[0].id == key
            is_of_it = is_method(turns.iter, "items") and ast.unparse(turns.iter).removesuffix(".items()") == local
            return is_same and is_of_it and not parts_of(value, local, NAMES)
    return False


def handed_to(call: str, read: Collection[str]) -> str:
    """Return the program's function that a library call runs, as the text names it; empty if there is none.

    >>> handed_to("jax.jit(jax.vmap(lambda t: 2 * t))(x)", {"x"}), handed_to("jax.lax.scan(cell, h, xs)", {"h", "xs"})
    ('<lambda>', 'cell')
    """
    match parsed_expression(call):
        case ast.Call(args=[first, *_]) as node:
            runs_it = last_name(node.func) in MAPPING | TRANSFORMING | {"scan", "associative_scan"}
            functions = [applied(node, first), *([first] if runs_it else [])]
        case _:
            return ""
    for function in functions:
        if isinstance(function, ast.Lambda):
            return "<lambda>"
        if isinstance(function, ast.Name) and function is not node.func and function.id not in read:
            return function.id
    return ""
