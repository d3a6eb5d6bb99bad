"""Makes the table of docs/provoke.md: ``python tests/frameworks/provoke_page.py`` provokes each case, and its twin."""

import os
import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

PAGE = Path(__file__).parents[2] / "docs" / "provoke.md"
BELOW = """## What it finds

Each row is a small program with a numerical bug (`tests/provoke_torch.py` and its neighbours for TensorFlow and JAX),
and a stable twin that computes the same. `python tests/frameworks/provoke_page.py` provokes them and makes the table.
"""


def frameworks():
    """The cases of each framework, and what makes a tensor."""
    import jax.numpy as jnp
    import provoke_jax
    import provoke_tensorflow
    import tensorflow as tf
    import torch

    import provoke_torch

    return [
        ("PyTorch", provoke_torch.CASES, torch.tensor),
        ("TensorFlow", provoke_tensorflow.CASES, tf.constant),
        ("JAX", provoke_jax.CASES, jnp.asarray),
    ]


@cache
def provoked():
    """Each case with its framework, its finding, and the report on its twin."""
    return [
        (title, case, case.finding(case.provoked(make)), case.unprovoked(make))
        for title, cases, make in frameworks()
        for case in cases
    ]


def row(title, case, finding, twin):
    operation = f"`{case.operation}`".replace("|", "\\|")
    found = ("not found", "") if finding is None else (f"the {finding.broken}", finding.tries)
    nothing = "nothing" if twin.ok else "; ".join(one.headline for one in twin.findings)
    return f"| {case.about} | {title} | {operation} | {found[0]} | {found[1]} | {nothing} |"


def table():
    every = provoked()
    found = [finding for _, _, finding, _ in every if finding is not None]
    summary = (
        f"Of {len(every)} programs {len(found)} are broken, each within {max(one.tries for one in found)} tries, and "
        f"{sum(not twin.ok for *_, twin in every)} of the twins.\n"
    )
    head = "| bug | framework | operation | NaN or Inf in | tries | the twin |\n|---|---|---|---|---|---|"
    return "\n".join([BELOW, summary, head, *(row(*one) for one in every), ""])


def made():
    """The page with the table as it is now."""
    return PAGE.read_text().partition("## What it finds")[0] + table()


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    PAGE.write_text(made())
