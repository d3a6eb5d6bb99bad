"""``python tests/random_programs 20000 [SEED]``: run many programs and say what came of it."""

import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # as pytest does, so that this folder is a package

from random_programs.compare import Tally, check
from random_programs.statements import generate


def main(count: int = 1000, seed: str = "0") -> int:
    """The number of failures."""
    tally, failures, begun = Tally(), [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for at in range(count):
            try:
                check(generate(random.Random(f"{seed}:{at}").randrange), Path(folder), tally)
            except Exception as error:  # noqa: BLE001 - what a program raises is a finding like any other
                notes = getattr(error, "__notes__", ())
                failures.append("\n".join([f"{seed}:{at}: {type(error).__name__}: {error}", *notes]))
            if (at + 1) % 1000 == 0:
                print(f"{at + 1}/{count}, {len(failures)} failures, {time.monotonic() - begun:.0f} s", flush=True)
    for failure in sorted(failures, key=len)[:5]:
        print(failure)
    print(f"{tally}; {len(failures)} failures")
    return len(failures)


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:2]), *sys.argv[2:3])))
