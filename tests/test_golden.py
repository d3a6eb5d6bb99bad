"""The drawn SVG against one that was looked at, but for coordinates and fonts, which the machine's fonts decide.

After a wanted change, look at the new drawings and keep them: ``python tests/test_golden.py``.
"""

import re
from pathlib import Path

import pytest

import backprobe as bp
from backprobe.demo import composed, toy

HERE = Path(__file__).parent
CASES = {
    HERE.parent / "docs/pictures/toy.svg": (toy, (3.0, 2.0, 1.0), {}),  # which the README shows
    HERE / "golden/composed.svg": (composed, (1.0,), {"contributions": True}),
}


def drawn(file):
    function, arguments, options = CASES[file]
    return bp.draw(bp.probe(function, partials=True)(*arguments), **options).svg


def settled(svg):
    """Without what the fonts of a machine decide: positions and sizes, and the identifier that follows from them."""
    svg = re.sub(r"[^\s\"]*demo\.py:\d+", "demo.py", svg)
    svg = re.sub(r"bp[0-9a-f]{10}(?![0-9a-f])", "bp", svg)
    return re.sub(r'\b(width|height|viewBox|transform|points|d|x|y|font-size)="[^"]*"', r'\1=""', svg)


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_a_drawing_is_what_was_looked_at(file):
    assert settled(drawn(file)) == settled(file.read_text())


if __name__ == "__main__":
    for golden in CASES:
        golden.write_text(drawn(golden))
