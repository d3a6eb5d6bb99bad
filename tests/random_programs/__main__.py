"""``python tests/random_programs 20000 [SEED] [WHAT]``: run many programs and say what came of it.

WHAT is judged: ``gradients``, ``partials``, or ``views``, the partials of programs that mostly write through views.
"""

import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest does, so that this folder is a package

from random_programs.compare import Tally, check
from random_programs.partials import Seen, check_partials
from random_programs.statements import generate
from random_programs.views import generate_views

JUDGES = {
    "gradients": (generate, check, Tally),
    "partials": (generate, check_partials, Seen),
    "views": (generate_views, check_partials, Seen),
}


def main(count: int = 1000, seed: str = "0", what: str = "gradients") -> int:
    """The number of failures."""
    draw, judge, new = JUDGES[what]
    tally, failures, begun = new(), 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for at in range(count):
            try:
                judge(draw(random.Random(f"{seed}:{at}").randrange), Path(folder), tally)
            except Exception as error:  # noqa: BLE001 - what a program raises is a finding like any other
                failures += 1
                print(f"{seed}:{at}: {type(error).__name__}: {error}", *getattr(error, "__notes__", ()), sep="\n")
            if (at + 1) % 1000 == 0:
                print(f"{at + 1}/{count}, {failures} failures, {time.monotonic() - begun:.0f} s", flush=True)
    print(f"{tally}; {failures} failures")
    return failures


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:2]), *sys.argv[2:4])))
