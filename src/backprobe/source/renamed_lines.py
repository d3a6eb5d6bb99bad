"""Rewrites the line that rebinds a needed name, so that it uses another name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from backprobe.source.bound_values import BoundUse
from backprobe.source.rebound_names import Rebound
from backprobe.source.scopes import Binding, How


def other_name(name: str) -> str:
    """Return the name with a trailing underscore, as PEP 8 suggests."""
    return f"{name}_"


def renamed(one: Binding, found: Rebound) -> str:
    """Return the line of a binding, in which the name is replaced by another one. For an import, return an import of
    this name alone. Empty if the line does not contain the name, or imports ``*``.
    """
    line, own = one.text.lines[one.line - 1], found.name.rpartition(".")[2]
    if one.how is How.IMPORT:
        return _renamed_import(one, own)
    places = [_column(one, line, own)]
    if one.how in (How.LOOP, How.COMPREHENSION, How.WITH):
        places += [_encoded(line, node.col_offset) for node in _reads(one, found) if node.lineno == one.line]
    if any(at < 0 or line[at : at + len(own)] != own for at in places):
        return ""
    for at in sorted(set(places), reverse=True):
        line = line[:at] + other_name(own) + line[at + len(own) :]
    return line.strip()


def is_read(one: Binding, found: Rebound) -> bool:
    """Is the new value read anywhere, except by uses that need the old one, such as the failing expression?"""
    return any(True for _ in _reads(one, found))


def is_read_elsewhere(one: Binding, found: Rebound) -> bool:
    """Is the new value also read on other lines? Of an attribute this is not known, and counts as true."""
    return "." in found.name or any(node.lineno != one.line for node in _reads(one, found))


def _renamed_import(one: Binding, name: str) -> str:
    alias, home = one.node, "." * getattr(one.statement, "level", 0) + (getattr(one.statement, "module", None) or "")
    if alias.name == "*":
        return ""
    begins = f"from {home} import " if isinstance(one.statement, ast.ImportFrom) else "import "
    return f"{begins}{alias.name} as {other_name(name)}"


def _column(one: Binding, line: str, name: str) -> int:
    # Return the column of the bound name in a line; -1 if it is not found.
    if isinstance(one.node, ast.Attribute):
        return _encoded(line, (one.node.end_col_offset or 0) - len(name.encode()))
    at = _encoded(line, one.node.col_offset)
    if isinstance(one.node, ast.Name | ast.arg):
        return at
    before = r"\bas\s+" if one.how is How.EXCEPT else ""
    found = re.compile(rf"{before}\b({name})\b").search(line, at)
    return -1 if found is None else found.start(1)


def _encoded(line: str, offset: int) -> int:
    # Convert a position in bytes to a position in characters.
    return len(line.encode()[:offset].decode(errors="replace"))


def _reads(one: Binding, found: Rebound) -> Iterator[ast.Name]:
    # Yield the places that read the new value of the name, but not those that mean its old value.
    name, scopes = found.name, found.names.scopes
    holder = scopes[found.failed.node].holder(name)
    tree = one.text.tree if holder is None or holder.parent is None else holder.node
    needed = [used for node in ast.walk(tree) if (used := _needed(node, found)) is not None]
    for node in ast.walk(tree):
        is_read = isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        is_its = node in scopes and scopes[node].holder(name) is holder
        if isinstance(node, ast.Name) and is_read and is_its and node not in needed:
            yield node


def _needed(node: ast.AST, found: Rebound) -> ast.AST | None:
    # Return the part of a node that is used as the failing expression uses the name: the called function, or the owner
    # of the item or attribute. If this part is the name, it needs the name's old meaning. None for other nodes.
    failed = found.failed
    match node:
        case ast.Name() if node is failed.node:
            return node
        case ast.Call(func=called) if failed.use is BoundUse.CALL:
            return called
        case ast.Subscript(value=owner) if failed.use is BoundUse.ITEM:
            return owner
        case ast.Attribute(value=owner, attr=attr) if failed.use is BoundUse.ATTRIBUTE:
            return owner if attr == failed.attribute or found.means.can(BoundUse.ATTRIBUTE, attr) else None
    return None
