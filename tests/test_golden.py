"""The drawn SVG against one that was looked at, but for coordinates and fonts, which the machine's fonts decide.

After a wanted change, look at the new drawings and keep them: ``python tests/test_golden.py``.
"""

import re
from pathlib import Path

import pytest

import backprobe as bp
from backprobe.demo import composed, toy

GOLDEN = Path(__file__).parent / "golden"
CASES = {"toy": (toy, (3.0, 2.0, 1.0)), "composed": (composed, (1.0,))}


def drawn(name):
    function, arguments = CASES[name]
    svg = bp.draw(bp.probe(function, partials=True)(*arguments), contributions=name == "composed").svg
    svg = re.sub(r"demo\.py:\d+", "demo.py", svg)
    return re.sub(r"<style>.*?</style>", "<style/>", svg, flags=re.S)


def settled(svg):
    """Without what the fonts of a machine decide: positions and sizes, and the identifier that follows from them."""
    svg = re.sub(r"\bbp[0-9a-f]{10}\b|\bbp[0-9a-f]{10}(?=_)", "bp", svg)
    return re.sub(r'\b(width|height|viewBox|transform|points|d|x|y|font-size)="[^"]*"', r'\1=""', svg)


@pytest.mark.parametrize("name", CASES)
def test_a_drawing_is_what_was_looked_at(name):
    assert settled(drawn(name)) == settled((GOLDEN / f"{name}.svg").read_text())


if __name__ == "__main__":
    for case in CASES:
        (GOLDEN / f"{case}.svg").write_text(drawn(case))
