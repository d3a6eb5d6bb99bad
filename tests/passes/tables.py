"""The table that a command prints, read back: what stands in the row of a name, by its column."""

from __future__ import annotations

import re

import torch

Rows = dict[str, dict[str, str]]


def table(text: str) -> Rows:
    """The cells of each row by the head of their column; an alias has the cells of the row that it stands below."""
    lines = text[text.index("name ") :].splitlines()
    heads = [(found[0], found.start()) for found in re.finditer(r"\S+(?: \S+)*", lines[0])]
    rows: Rows = {}
    row: dict[str, str] = {}
    for line in lines[1:]:
        if re.match(r"gradients? (are|is) of|not tensors:", line):
            break
        if line.startswith("= "):
            rows[line[2:].strip()] = row
            continue
        row = {head: line[start:end].strip() for (head, start), end in zip(heads, _ends(heads), strict=True)}
        rows[row.pop("name")] = row
    return rows


def _ends(heads: list[tuple[str, int]]) -> list[int | None]:
    return [*(start for _, start in heads[1:]), None]


def shown(cell: str | None, wanted: torch.Tensor | None) -> bool:
    """Does a cell show this tensor, to the digits that it prints? None is shown as a status, in words."""
    if cell is None or wanted is None:
        return cell is not None and re.match(r"[a-z_]+(:|$)", cell) is not None
    wanted = wanted.detach()
    if wanted.numel() > 8:  # its shape, and two numbers
        return cell.endswith(f" max {wanted.abs().max():.3g}")
    try:
        numbers = [complex(number) for number in re.sub(r"[\[\]]", "", cell).split(", ")]
    except ValueError:
        return False
    found, flat = torch.tensor(numbers, dtype=torch.complex128), wanted.reshape(-1).to(torch.complex128)
    return found.shape == flat.shape and torch.allclose(found, flat, rtol=1e-5, atol=1e-6)
