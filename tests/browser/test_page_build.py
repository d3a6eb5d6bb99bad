"""The bundles of the viewer's page are what its sources and its libraries give, byte by byte. It needs Node."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
MADE = ["src/backprobe/view/page", "tools/page/vendor"]


def test_building_anew_gives_the_same(tmp_path):
    subprocess.run([sys.executable, ROOT / "tools" / "page" / "build.py", tmp_path], check=True)
    made = {
        str(file.relative_to(tmp_path)): file.read_bytes() for folder in MADE for file in (tmp_path / folder).iterdir()
    }
    assert len(made) == 8
    assert [name for name, data in made.items() if (ROOT / name).read_bytes() != data] == []
